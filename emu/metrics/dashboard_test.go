package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is the part of a Grafana dashboard that the tests check.
type dashboard struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID         int                        `json:"id"`
		Type       string                     `json:"type"`
		Title      string                     `json:"title"`
		Datasource struct{ Type, UID string } `json:"datasource"`
		GridPos    struct{ H, W, X, Y int }   `json:"gridPos"`
		Targets    []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../dashboards/weft.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var metricName = regexp.MustCompile(`weft_[a-z0-9_]+`)

// Every metric in a query exists, and every
// metric is on a panel, except those for the variables.
func TestDashboard_AsksForExistingMetrics(t *testing.T) {
	d := readDashboard(t)
	all := names(t)
	onPanels := map[string]bool{}
	check := func(where, query string) (found []string) {
		found = metricName.FindAllString(query, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for no metric: %s", where, query)
		}
		for _, n := range found {
			if !slices.Contains(all, n) {
				t.Errorf("%s asks for %s, which there is not", where, n)
			}
		}
		return found
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, n := range check(p.Title, target.Expr) {
				onPanels[n] = true
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			check("variable "+v.Name, string(v.Query))
		}
	}
	// The variables list nodes and ports with port_info.
	elsewhere := []string{"weft_port_info"}
	for _, n := range all {
		if onPanels[n] == slices.Contains(elsewhere, n) {
			t.Errorf("%s: on a panel: %v, listed as not: %v", n, onPanels[n], !onPanels[n])
		}
	}
}

// It has the variables, every panel takes its data from
// the selected source and has its own place and number, and every counter is
// queried as a rate.
func TestDashboard_IsComplete(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 38 { // 38: Grafana 10
		t.Errorf("title %q, uid %q, schema %d", d.Title, d.UID, d.SchemaVersion)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, name := range []string{"datasource", "lab", "node", "port"} {
		if !slices.Contains(variables, name) {
			t.Errorf("there is no variable %s", name)
		}
	}
	ids := map[int]string{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if other, ok := ids[p.ID]; ok {
			t.Errorf("%q and %q have the number %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.X+g.W > 24 {
			t.Errorf("%q is wider than the dashboard", p.Title)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%q: data source %+v, %d queries", p.Title, p.Datasource, len(p.Targets))
		}
		for _, target := range p.Targets {
			for _, n := range metricName.FindAllString(target.Expr, -1) {
				counted := strings.HasSuffix(n, "_total") && n != "weft_lab_emulated_seconds_total"
				rated := strings.Contains(target.Expr, "rate("+n) || strings.Contains(target.Expr, "increase("+n)
				if counted && !rated {
					t.Errorf("%q shows the counter %s itself", p.Title, n)
				}
			}
			if !strings.Contains(target.Expr, `lab=~"$lab"`) {
				t.Errorf("%q does not ask for the lab chosen: %s", p.Title, target.Expr)
			}
		}
	}
}
