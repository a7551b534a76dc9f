package live

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/agent/exposition"
	"fairway/test/rig"
)

// get fetches a page; anything but 200 fails the test.
func get(t testing.TB, address string) string {
	t.Helper()
	client := http.Client{Timeout: rig.Bound}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v: %s", address, resp.Status, err, body)
	}
	return string(body)
}

// Stats returns the Envoy's statistics with names that match a regular expression.
func (e *Envoy) Stats(t testing.TB, filter string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for line := range strings.Lines(get(t, e.admin+"/stats?filter="+url.QueryEscape(filter))) {
		i := strings.LastIndex(line, ": ")
		if i < 0 {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(line[i+2:]), 10, 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out
}

// RawMetrics are the mesh's metrics as this Envoy has them.
func (e *Envoy) RawMetrics(t testing.TB) string {
	t.Helper()
	return get(t, e.admin+"/stats/prometheus?filter=istio")
}

// Metrics returns the mesh's metrics of this Envoy, as an agent beside it, in front of the given workload, returns them.
func (e *Envoy) Metrics(t testing.TB, own exposition.Workload) []string {
	t.Helper()
	var out strings.Builder
	m := exposition.New(&out)
	if err := m.Add(strings.NewReader(e.RawMetrics(t)), exposition.Text, exposition.Istio(own)); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	return strings.Split(out.String(), "\n")
}

// AwaitStat waits until the statistics with names that match a regular expression add up to at least a value.
func (e *Envoy) AwaitStat(t testing.TB, filter string, least int64) {
	t.Helper()
	rig.Eventually(t, func() error {
		var sum int64
		for _, v := range e.Stats(t, filter) {
			sum += v
		}
		if sum < least {
			return fmt.Errorf("%s: %s is %d, want at least %d", e.Name, filter, sum, least)
		}
		return nil
	})
}

// Clusters returns the names of the clusters that the Envoy uses, in order.
func (e *Envoy) Clusters(t testing.TB) []string {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(get(t, e.admin+"/clusters")) {
		name, _, ok := strings.Cut(line, "::")
		if ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Hosts are the addresses of a cluster as the Envoy knows them, with their health flags ("healthy", "/failed_eds_health").
func (e *Envoy) Hosts(t testing.TB, cluster string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(get(t, e.admin+"/clusters")) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), cluster+"::")
		if !ok {
			continue
		}
		if host, flags, ok := strings.Cut(rest, "::health_flags::"); ok {
			out[host] = flags
		}
	}
	return out
}

// AwaitHosts waits until a cluster has exactly these addresses.
func (e *Envoy) AwaitHosts(t testing.TB, cluster string, want ...string) {
	t.Helper()
	slices.Sort(want)
	rig.Eventually(t, func() error {
		if got := slices.Sorted(maps.Keys(e.Hosts(t, cluster))); !slices.Equal(got, want) {
			return fmt.Errorf("%s: cluster %s has %v, want %v", e.Name, cluster, got, want)
		}
		return nil
	})
}

// Dump is the Envoy's configuration, endpoints included, as JSON text.
func (e *Envoy) Dump(t testing.TB) string {
	t.Helper()
	return get(t, e.admin+"/config_dump?include_eds")
}

// check fails the test if the proxy ended by itself, or ever refused anything: by its own count, and by the control plane's.
func (e *Envoy) check(t testing.TB, m *Mesh) {
	select {
	case <-e.exited:
		t.Errorf("Envoy %s ended: %v\n%s", e.Name, e.err, m.Logs())
		return
	default:
	}
	if m.Plane.mayRefuse {
		return
	}
	for name, v := range e.Stats(t, `(update_rejected|listener_create_failure)$`) {
		if v != 0 {
			t.Errorf("Envoy %s: %s is %d\n%s", e.Name, name, v, m.Logs())
		}
	}
}

// check fails the test if the control plane counted an internal error, or a proxy refused something.
func (p *Plane) check(t testing.TB) {
	for _, n := range p.metric(t, "pilot_total_xds_internal_errors") {
		if n != 0 {
			t.Errorf("the control plane counted %v internal errors\n%s", n, p.Log())
		}
	}
	for typ, n := range p.metric(t, "pilot_total_xds_rejects") {
		if n != 0 && !p.mayRefuse {
			t.Errorf("%v responses of type %s were refused: %v", n, typ, p.Problems())
		}
	}
}

// AwaitStatIs waits until the one statistic with a name that matches a regular expression has a value.
func (e *Envoy) AwaitStatIs(t testing.TB, filter string, want int64) {
	t.Helper()
	rig.Eventually(t, func() error {
		got := e.Stats(t, filter)
		for _, v := range got {
			if len(got) == 1 && v == want {
				return nil
			}
		}
		return fmt.Errorf("%s: %s is %v, want one that is %d", e.Name, filter, got, want)
	})
}
