package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// series are the labels of the metrics that are there, by name.
type series map[string]map[string]bool

func (s series) add(name string, labels ...string) {
	if s[name] == nil {
		s[name] = map[string]bool{}
	}
	for _, l := range labels {
		s[name][l] = true
	}
}

var (
	labelPattern = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
	rowPattern   = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z_, ]*) \\|")
)

// scraped adds what a page of metrics has.
func (s series) scraped(page string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		s.add(name)
		if end := strings.LastIndex(line, "}"); end > 0 {
			for _, m := range labelPattern.FindAllStringSubmatch(line[:end], -1) {
				s.add(name, m[1])
			}
		}
	}
}

// declared adds what docs/reference/metrics.md has, which is made of the program: metrics with labels have no series before they count.
func (s series) declared(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rowPattern.FindAllStringSubmatch(string(text), -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if _, real := s[m[1]+suffix]; real || suffix == "" {
				s.add(m[1]+suffix, strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })...)
			}
		}
	}
}

// ofTarget are labels that a scraper gives: what Istio's dashboards expect of the pods of a control plane, and what a scraper adds itself.
var ofTarget = []string{"app", "pod", "namespace", "container", "instance", "job"}

// lacks returns which of a metric's labels there are not, or the metric.
func (s series) lacks(metric string, labels []string) string {
	has, ok := s[metric]
	if !ok {
		return "there is no metric " + metric
	}
	for _, l := range labels {
		if !has[l] && !slices.Contains(ofTarget, l) {
			return fmt.Sprintf("%s has no label %s", metric, l)
		}
	}
	return ""
}

// elsewhere are metrics of Istio's dashboards that nothing here has, by prefix, and why.
var elsewhere = map[string]string{
	"container_":                            "the kubelet's, of containers",
	"envoy_wasm_":                           "Envoy's, while a module of Wasm runs or is fetched by it; the agent fetches here",
	"istio_request_duration_seconds_bucket": "the name before Istio 1.5; the query has today's beside it",
}

// promql asks tools/promql, which has Prometheus' own parser.
func promql(t *testing.T, queries, rules []string) (out struct {
	Queries []struct {
		Error     string
		Selectors []struct {
			Metric string
			Labels []string
		}
		Groups []struct{ Labels, Metrics []string }
	}
	Rules []struct {
		Errors, Expressions []string
		Alerts              []struct {
			Name, For           string
			Labels, Annotations map[string]string
		}
	}
},
) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"Queries": queries, "Rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".")
	command.Dir, command.Stdin = "../../tools/promql", bytes.NewReader(in)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("tools/promql: %v\n%s", err, &stderr)
	}
	return out
}

// watched runs a control plane and two agents with their Envoys, sends requests and a connection from one to the other, and returns what
// Prometheus would scrape from all three.
func watched(t *testing.T) series {
	t.Helper()
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app)+"---\n"+m.Rules(t, "shopper.yaml"))
	s := with(t, m, "web", append(quick, "--xdsRelay", "true")...)
	s.env = []string{`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","port":"1","path":"/"}`} // nothing listens: a scrape that fails
	web, shopper := launch(t, s), launch(t, with(t, m, "shopper", append(quick, "--xdsRelay", "true")...))
	web.ready(t)
	shopper.ready(t)
	m.Settle(t)
	rig.Eventually(t, func() error {
		reply, err := live.Try(live.Request{To: m.Addr("shopper-egress", 8000), Host: "web.test"})
		if err == nil && reply.Status != http.StatusOK {
			err = fmt.Errorf("answered %d", reply.Status)
		}
		return err
	})
	if code, _, err := call(http.MethodGet, "http://"+m.Addr("plane", 8080)+"/debug/nothing"); err != nil || code != http.StatusNotFound {
		t.Fatalf("a page that is not there: %d %v", code, err)
	}
	live.Say(t, m.Addr("shopper-egress", 9000), "hello")
	all := series{}
	web.metrics(t) // the failed scrape counts from the next page on
	for _, url := range append(agents(t, m), "http://"+m.Addr("plane", 8080)+"/metrics") {
		code, body, err := call(http.MethodGet, url)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %v", url, code, err)
		}
		all.scraped(body)
	}
	all.declared(t)
	return all
}

// agents returns the addresses of the agents' pages, as Prometheus finds them.
func agents(t *testing.T, m *live.Mesh) (urls []string) {
	t.Helper()
	_, body, err := call(http.MethodGet, "http://"+m.Addr("plane", 8080)+"/sd")
	var all []struct {
		Targets []string
		Labels  map[string]string
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &all)
	}
	if err != nil || len(all) != 2 {
		t.Fatalf("/sd: %s %v, want two agents", body, err)
	}
	for _, one := range all {
		urls = append(urls, "http://"+one.Targets[0]+one.Labels["__metrics_path__"])
	}
	return urls
}

// TestDashboards: each metric and label that a query of our dashboards, of our alerts and of Istio's dashboards names is on the pages of a
// control plane and of agents with real traffic, and Prometheus' own parser takes our queries and rules.
func TestDashboards(t *testing.T) {
	have := watched(t)
	text, err := os.ReadFile("testdata/istio-dashboards.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		var labels []string
		if len(f) > 2 {
			labels = strings.Split(f[2], ",")
		}
		if lack := have.lacks(f[1], labels); lack == "" {
			found++
		} else if !isElsewhere(f[1]) {
			t.Errorf("Istio's %s: %s", f[0], lack)
		}
	}
	if found < 50 {
		t.Errorf("%d metrics of Istio's dashboards are there", found)
	}
	queries, from := ours(t)
	rules, err := os.ReadFile("../../deploy/alerts/fairway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ruled := promql(t, nil, []string{string(rules)}).Rules[0]
	if len(ruled.Errors) > 0 {
		t.Errorf("deploy/alerts/fairway.yaml: %s", ruled.Errors)
	}
	for _, e := range ruled.Expressions {
		queries, from = append(queries, e), append(from, "deploy/alerts/fairway.yaml")
	}
	for i, q := range promql(t, queries, nil).Queries {
		if q.Error != "" {
			t.Errorf("%s: %s: %s", from[i], queries[i], q.Error)
		}
		for _, s := range q.Selectors {
			if lack := have.lacks(s.Metric, s.Labels); lack != "" {
				t.Errorf("%s: %s: %s", from[i], queries[i], lack)
			}
		}
		for _, g := range q.Groups {
			for _, metric := range g.Metrics {
				if lack := have.lacks(metric, g.Labels); lack != "" {
					t.Errorf("%s: %s: %s", from[i], queries[i], lack)
				}
			}
		}
	}
	page, err := os.ReadFile("../../docs/operate/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ruled.Alerts {
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", a.Name)
		}
		if !strings.Contains(string(page), "`"+a.Name+"`") {
			t.Errorf("docs/operate/monitoring.md does not say what to do about %s", a.Name)
		}
	}
}

func isElsewhere(metric string) bool {
	for prefix := range elsewhere {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return false
}

// legendPattern finds the labels in the legend of a query.
var legendPattern = regexp.MustCompile(`\{\{(\w+)\}\}`)

// ours returns the queries of deploy/grafana, as Grafana sends them, and the file of each. Panels have distinct ids, and legends name
// labels that their queries keep.
func ours(t *testing.T) (queries, from []string) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v %v", files, err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID, Title string
			Panels     []struct {
				ID      int
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
			Templating struct {
				List []struct{ Query, Type string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil || board.UID == "" || board.Title == "" {
			t.Fatalf("%s: %v", file, err)
		}
		ids := map[int]bool{}
		for _, p := range board.Panels {
			if ids[p.ID] || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q has the id of another, or no query", file, p.Title)
			}
			ids[p.ID] = true
			for _, q := range p.Targets {
				queries, from = append(queries, variables.Replace(q.Expr)), append(from, filepath.Base(file))
				for _, m := range legendPattern.FindAllStringSubmatch(q.LegendFormat, -1) {
					if !strings.Contains(q.Expr, m[1]) && !slices.Contains(ofTarget, m[1]) {
						t.Errorf("%s: %s keeps no label %s", file, q.Expr, m[1])
					}
				}
			}
		}
		for _, v := range board.Templating.List {
			if metric, label, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Query, "label_values("), ")"), ", "); ok {
				queries, from = append(queries, fmt.Sprintf("sum by (%s) (%s)", label, metric)), append(from, filepath.Base(file))
			}
		}
	}
	return queries, from
}
