package graph

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/links"
)

// describeSettings describes one direction of a link: its rate, and its delay, its loss
// and that it is down, if so.
func describeSettings(s links.Settings) string {
	text := s.Rate.String()
	if s.Delay != 0 {
		text += " " + s.Delay.String()
	}
	if s.Loss != 0 {
		text += " loss " + s.Loss.String()
	}
	if !s.Up {
		text += " down"
	}
	return text
}

// describeDirections describes a link, once if both directions are the same. Otherwise
// there and back mark the direction that leaves the given end and the other
// one, and sep is between them.
func describeDirections(l plan.Link, end int, there, back, sep string) string {
	one, other := describeSettings(l.Dir[end]), describeSettings(l.Dir[1-end])
	if one == other {
		return one
	}
	return there + one + sep + back + other
}

// describeLink describes a link, with arrows as the link is drawn.
func (r *rows) describeLink(l plan.Link) string {
	if r.isLevel(l) {
		return describeDirections(l, r.higherEnd(l), "→ ", "← ", ", ")
	}
	return describeDirections(l, r.higherEnd(l), "↓ ", "↑ ", ", ")
}

// labelLinks returns the text beside each link, and a legend that states once what
// most links of a kind have in common, in place of their texts.
func (r *rows) labelLinks() (labels, legend []string) {
	all := make([]int, len(r.Links))
	var kinds [2][]int
	for i, l := range r.Links {
		all[i] = i
		labels = append(labels, r.describeLink(l))
		kind := 0
		if !r.isHost(l.Ends[0].Node) && !r.isHost(l.Ends[1].Node) {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], i)
	}
	if text, count := commonLabel(labels, all); count == len(all) && text != "" {
		return make([]string, len(all)), []string{"all links " + text}
	}
	for kind, name := range []string{"host links ", "switch links "} {
		text, count := commonLabel(labels, kinds[kind])
		if text == "" {
			continue
		}
		for _, i := range kinds[kind] {
			if labels[i] == text {
				labels[i] = ""
			}
		}
		if count < len(kinds[kind]) {
			name = "other " + name
		}
		legend = append(legend, name+text)
	}
	return labels, legend
}

// commonLabel returns the label that more than half of some links have, and how many
// have it. It is empty if there is none, or if fewer than three have it: those
// are better labelled one by one.
func commonLabel(labels []string, links []int) (text string, count int) {
	counts := map[string]int{}
	for _, i := range links {
		counts[labels[i]]++
		if c := counts[labels[i]]; c > 2 && 2*c > len(links) {
			text = labels[i]
		}
	}
	return text, counts[text]
}
