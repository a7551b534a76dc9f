package app

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/app/sharing"
	"fairway/internal/golden"
	"fairway/internal/state"
	"fairway/internal/state/address"
)

// descPattern is how client_golang prints what a metric is; it has no other way to tell.
var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// TestMetricsReference: docs/reference/metrics.md has each metric of the control plane, with its help and labels. -update writes it.
func TestMetricsReference(t *testing.T) {
	opts := DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr = "", "127.0.0.1:0", ""
	opts.SecureAddr, opts.HTTPSAddr = "127.0.0.1:0", "127.0.0.1:0"
	opts.Shutdown = 0
	d, err := NewDiscovery(opts)
	if err != nil {
		t.Fatal(err)
	}
	at, err := address.Parse("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	store, err := at.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	shared := state.New(store, state.Sealer{}, "a", opts.Log)
	if err := sharing.Register(d.setup.metrics.Registry, shared); err != nil { // with --state
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	defer func() { _ = d.Run(ended) }()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		d.setup.metrics.Registry.Describe(descriptions)
	}()
	var rows []string
	for of := range descriptions {
		parts := descPattern.FindStringSubmatch(of.String())
		if parts == nil {
			t.Errorf("cannot read %s", of)
			continue
		}
		if name := parts[1]; !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			labels := strings.ReplaceAll(parts[3], ",", ", ")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, labels, strings.ReplaceAll(parts[2], "|", `\|`)))
		}
	}
	slices.Sort(rows)
	wantIstios(t, rows)
	golden.File(t, "../../docs/reference/metrics.md", "# Metrics of the control plane\n\n"+
		"`/metrics` at `--monitoringAddr` and `--httpAddr`, in Prometheus' format, and those of Go and of the process. A test makes this\n"+
		"page from the program (`go test ./internal/app -update`). [agent-metrics.md](agent-metrics.md) has those of agents.\n\n"+
		"| metric | labels | it is |\n|---|---|---|\n"+strings.Join(slices.Compact(rows), "\n")+"\n")
}

// wantIstios: each metric of istiod is among the rows with its labels, or docs/operate/monitoring.md says what replaces it, or why not.
func wantIstios(t *testing.T, rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/istio-metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, told, _ := strings.Cut(string(page), "## Istio's metric names")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" || strings.Contains(told, "`"+f[0]+"`") {
			continue
		}
		at := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| `"+f[0]+"` |") })
		if at < 0 {
			t.Errorf("istiod's metric %s is neither here nor in docs/operate/monitoring.md", f[0])
			continue
		}
		if len(f) > 1 && !strings.HasSuffix(f[0], "_reject") {
			has := strings.Split(strings.ReplaceAll(strings.TrimSpace(strings.Split(rows[at], "|")[2]), " ", ""), ",")
			for label := range strings.SplitSeq(f[1], ",") {
				if !slices.Contains(has, label) {
					t.Errorf("%s has no label %s: %s", f[0], label, rows[at])
				}
			}
		}
	}
}
