package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/experiment"
)

// tableContext is what the values of a table refer to.
type tableContext struct {
	names   []string // of the results
	reports []*experiment.Report
}

// value is a value with half of its 95% interval, which is NaN if there is none.
type value struct{ center, half float64 }

// renderValue returns a value as text, from the words between its braces.
func (t *tableContext) renderValue(words []string) (string, error) {
	if len(words) < 2 {
		return "", errors.New("write a measure, its levels and a format, such as {jain rocc %.2f}")
	}
	format, words := words[len(words)-1], words[:len(words)-1]
	extreme := ""
	if words[0] == "max" || words[0] == "min" {
		extreme, words = words[0], words[1:]
	}
	at := slices.IndexFunc(words, func(w string) bool { return w == "/" || w == "-" || w == "+" })
	terms, operator := [][]string{words}, ""
	if at >= 0 {
		terms, operator = [][]string{words[:at], words[at+1:]}, words[at]
	}
	var found []map[string]value // by bin, of each term
	for _, term := range terms {
		values, err := t.find(term)
		if err != nil {
			return "", err
		}
		found = append(found, values)
	}
	v, err := combine(found, operator, extreme)
	if err != nil {
		return "", err
	}
	return formatValue(v, format)
}

// find returns the values of a term by bin: of one bin unless the term leaves it open.
func (t *tableContext) find(words []string) (map[string]value, error) {
	which := ofSeeds
	if len(words) > 0 && slices.Contains([]string{ofPaper, lowest, middle, highest}, words[0]) {
		which, words = words[0], words[1:]
	}
	if len(words) == 0 {
		return nil, errors.New("a measure is missing")
	}
	if number, err := strconv.ParseFloat(words[0], 64); err == nil && len(words) == 1 {
		return map[string]value{"": {number, math.NaN()}}, nil
	}
	name, levels := words[0], words[1:]
	result, measure, named := strings.Cut(name, ":")
	if !named {
		result, measure = "", name
	}
	for i, r := range t.reports {
		known := slices.ContainsFunc(r.Summaries, func(s experiment.Summary) bool { return s.Measure == measure })
		if known && (!named || result == t.names[i]) {
			return findIn(r, measure, levels, which)
		}
	}
	return nil, fmt.Errorf("no result of %s has the measure %s", strings.Join(t.names, ", "), name)
}

// The values of a measure that a term may mean.
const (
	ofSeeds = "" // the mean or median of all seeds
	ofPaper = "paper"
	lowest  = "lowest" // of the seeds
	middle  = "middle"
	highest = "highest"
)

// findIn returns the values of a measure at some levels by bin.
func findIn(r *experiment.Report, measure string, words []string, which string) (map[string]value, error) {
	bin, levels := "", map[int]string{}
	for _, w := range words {
		isBin := slices.ContainsFunc(r.Summaries, func(s experiment.Summary) bool { return s.Measure == measure && s.Bin == w })
		factors := factorsWith(r, w)
		switch {
		case isBin && bin == "":
			bin = w
		case len(factors) == 1:
			levels[factors[0]] = w[strings.Index(w, "=")+1:]
		case len(factors) == 0:
			return nil, fmt.Errorf("%q is neither a level of a factor nor a bin", w)
		default:
			return nil, fmt.Errorf("%q is a level of several factors: write FACTOR=%s", w, w)
		}
	}
	for i, f := range r.Factors {
		if _, given := levels[i]; !given && len(f.Levels) > 1 {
			return nil, fmt.Errorf("a level of %s is missing: %s", f.Name, strings.Join(f.Levels, ", "))
		}
	}
	found := map[string]value{}
	for _, s := range r.Summaries {
		if s.Measure != measure || bin != "" && s.Bin != bin {
			continue
		}
		matches := true
		for i, l := range levels {
			matches = matches && s.Levels[i] == l
		}
		switch {
		case !matches:
		case which == ofPaper && s.Paper == nil:
			return nil, errors.New("the result has no value of the paper for it")
		case which == ofPaper:
			found[s.Bin] = value{s.Paper.Value, math.NaN()}
		case which != ofSeeds:
			found[s.Bin] = value{amongSeeds(s.Values, which), math.NaN()}
		default:
			found[s.Bin] = value{float64(s.Value), float64(s.High-s.Low) / 2}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the result has no such value")
	}
	return found, nil
}

// amongSeeds returns the lowest, the middle or the highest of the values of seeds; NaN if there are none.
func amongSeeds(values []float64, which string) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case which == lowest:
		return sorted[0]
	case which == highest:
		return sorted[n-1]
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// factorsWith returns the factors that have a level, which may be written as FACTOR=LEVEL.
func factorsWith(r *experiment.Report, word string) (factors []int) {
	name, level, named := strings.Cut(word, "=")
	for i, f := range r.Factors {
		if named && f.Name == name && slices.Contains(f.Levels, level) || slices.Contains(f.Levels, word) {
			factors = append(factors, i)
		}
	}
	return factors
}

// combine combines one or two terms, and takes the largest or smallest over the bins.
func combine(terms []map[string]value, operator, extreme string) (value, error) {
	var all []value
	for bin, v := range terms[0] {
		if len(terms) == 2 {
			other, both := terms[1][bin]
			if !both && len(terms[1]) == 1 {
				for _, other = range terms[1] {
					both = true
				}
			}
			if !both {
				continue
			}
			v = value{calculate(v.center, other.center, operator), math.NaN()}
		}
		if !math.IsNaN(v.center) {
			all = append(all, v)
		}
	}
	switch {
	case len(all) == 0 && extreme == "" && len(terms[0]) == 1:
		return value{math.NaN(), math.NaN()}, nil
	case len(all) == 0:
		return value{}, errors.New("there is no value")
	case extreme == "" && len(all) > 1:
		return value{}, errors.New("a bin is missing")
	case extreme == "":
		return all[0], nil
	}
	slices.SortFunc(all, func(a, b value) int {
		switch {
		case a.center < b.center:
			return -1
		case a.center > b.center:
			return 1
		}
		return 0
	})
	if extreme == "max" {
		return all[len(all)-1], nil
	}
	return all[0], nil
}

func calculate(a, b float64, operator string) float64 {
	switch operator {
	case "/":
		return a / b
	case "-":
		return a - b
	}
	return a + b
}

// scales are the factors that the last letter of a format divides by.
var scales = map[byte]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'm': 1e-3, 'u': 1e-6, 'n': 1e-9, '%': 1e-2}

// formatValue formats a value.
func formatValue(v value, format string) (string, error) {
	verb, interval := strings.CutPrefix(format, "±")
	if !interval {
		var ok bool
		if verb, ok = strings.CutPrefix(format, "%"); !ok {
			return "", fmt.Errorf("%q is not a format, such as %%.1fM or ±.2f", format)
		}
	}
	if math.IsNaN(v.center) {
		return "–", nil
	}
	scale := 1.0
	if verb != "" {
		if s, ok := scales[verb[len(verb)-1]]; ok {
			scale, verb = s, verb[:len(verb)-1]
		}
	}
	if verb == ",d" {
		return groupDigits(int64(math.Round(v.center / scale))), nil
	}
	if !slices.Contains([]string{"f", "g", "e"}, verb[max(0, len(verb)-1):]) {
		return "", fmt.Errorf("%q is not a format, such as %%.1fM or ±.2f", format)
	}
	text := fmt.Sprintf("%"+verb, v.center/scale)
	if interval && !math.IsNaN(v.half) {
		text += " ± " + fmt.Sprintf("%"+verb, v.half/scale)
	}
	return text, nil
}

// groupDigits returns a number with a comma before each group of three digits.
func groupDigits(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
