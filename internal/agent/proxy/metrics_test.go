package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/agent/extensions"
	"fairway/internal/agent/health"
	"fairway/internal/agent/names"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/status"
	"fairway/internal/envoy/listener"
	"fairway/internal/golden"
	"fairway/test/rig"
)

// descPattern matches how client_golang prints what a metric is; it has no other way to tell.
var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// TestMetricsReference: docs/reference/agent-metrics.md has each metric of an agent that has all parts, with its help and labels.
// -update writes it.
func TestMetricsReference(t *testing.T) {
	a := wholeAgent(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		status.NewMetrics(a.envoys.State, a.collectors()...).Describe(descriptions)
	}()
	labels, rows := map[string]string{}, []string{}
	for of := range descriptions {
		parts := descPattern.FindStringSubmatch(of.String())
		if parts == nil {
			t.Errorf("cannot read %s", of)
			continue
		}
		name := strings.TrimPrefix(parts[1], "istio_agent_")
		if name == parts[1] {
			t.Errorf("%s does not begin with istio_agent_", name)
		}
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			labels[name] = parts[3]
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |",
				name, strings.ReplaceAll(parts[3], ",", ", "), strings.ReplaceAll(parts[2], "|", `\|`)))
		}
	}
	slices.Sort(rows)
	form, err := os.ReadFile("testdata/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range listener.Metrics {
		if !strings.Contains(string(form), "`istio_"+name+"`") {
			t.Errorf("testdata/metrics.md lacks the metric istio_%s of the mesh", name)
		}
	}
	wantIstios(t, string(form), labels)
	golden.File(t, "../../../docs/reference/agent-metrics.md",
		strings.Replace(string(form), "OWN", strings.Join(slices.Compact(rows), "\n"), 1))
}

// wholeAgent makes an agent with each part that has metrics.
func wholeAgent(t *testing.T) *agent {
	t.Helper()
	o, _ := testOptions(t, fakeEnvoy(t, ""))
	probe, err := health.Parse(&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{
		TcpSocket: &networking.TCPHealthCheckConfig{Port: 1},
	}}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	o.Health, o.Names = probe, &names.Options{Listen: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), Now: time.Now}
	o.Relay = &settings.Relay{Socket: filepath.Join(o.ConfigDir, "XDS")}
	o.Bootstrap.DiscoverySocket = o.Relay.Socket
	o.Extensions = &extensions.Options{Socket: filepath.Join(o.ConfigDir, "EXT"), Dir: t.TempDir()}
	o.Secrets = &secrets.Options{
		Socket: filepath.Join(o.ConfigDir, "SDS"), Now: time.Now, Authority: &secrets.Authority{Addresses: []string{"127.0.0.1:1"}},
	}
	a, err := newAgent(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.closeAccess(); a.front.Close() })
	whole := reflect.ValueOf(a).Elem()
	for i := range whole.NumField() {
		field := whole.Field(i)
		for _, method := range []string{"Collector", "Collectors"} {
			if _, has := field.Type().MethodByName(method); has && field.IsNil() {
				t.Errorf("the agent of this test has no %s, which has metrics", whole.Type().Field(i).Name)
			}
		}
	}
	return a
}

// wantIstios: each metric of Istio's agent is among the agent's with its labels, or the page says what replaces it, or why not.
func wantIstios(t *testing.T, form string, labels map[string]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/istio-agent-metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, missing, _ := strings.Cut(form, "## Names of Istio's agent")
	for line := range strings.Lines(string(text)) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		got, has := labels[name]
		switch {
		case name == "#":
		case has == strings.Contains(missing, "`istio_agent_"+name+"`"):
			t.Errorf("%s of Istio's agent is neither a metric here nor in the table of testdata/metrics.md, or is both", name)
		case has && got != want:
			t.Errorf("%s has the labels %q, those of Istio's agent are %q", name, got, want)
		}
	}
}
