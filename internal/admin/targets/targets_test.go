package targets

import (
	"maps"
	"strings"
	"testing"

	"fairway/internal/mesh"
)

func machine(change func(*mesh.Proxy)) mesh.Proxy {
	p := mesh.Proxy{
		Type: mesh.Sidecar, IP: "192.0.2.7", Name: "vm-1", Namespace: "shop", ServiceAccount: "web", Standing: mesh.Proven,
		Labels: mesh.MakeLabels(map[string]string{"app": "web", "team.example/name": "a"}),
	}
	change(&p)
	return p
}

// TestOf: Of returns the address of each proxy that can be scraped. A proxy's metadata cannot lead Prometheus to an address that is not a
// workload's.
func TestOf(t *testing.T) {
	said := func(port string) func(*mesh.Proxy) {
		return func(p *mesh.Proxy) { p.Metadata = mesh.MakeMetadata(map[string]any{PortKey: port}) }
	}
	at := func(ip string) func(*mesh.Proxy) { return func(p *mesh.Proxy) { p.IP = ip } }
	for name, c := range map[string]struct {
		change func(*mesh.Proxy)
		want   string // empty: not listed
	}{
		"a machine":             {func(*mesh.Proxy) {}, "192.0.2.7:15020"},
		"IPv6":                  {at("2001:db8::7"), "[2001:db8::7]:15020"},
		"another port":          {said("16020"), "192.0.2.7:16020"},
		"no page":               {said("0"), ""},
		"a port of root's":      {said("22"), ""},
		"no port":               {said("x"), ""},
		"a port with a path":    {said("80/../../secret"), ""},
		"the metadata service":  {at("169.254.169.254"), ""},
		"Prometheus' machine":   {at("127.0.0.1"), ""},
		"everything":            {at("0.0.0.0"), ""},
		"many":                  {at("224.0.0.1"), ""},
		"a name":                {at("example.com"), ""},
		"nothing proves it":     {func(p *mesh.Proxy) { p.Standing = mesh.Unproven }, ""},
		"here, on this machine": {func(p *mesh.Proxy) { p.Standing, p.IP = mesh.Here, "127.0.0.3" }, "127.0.0.3:15020"},
	} {
		got, ok := Of(machine(c.change))
		if ok != (c.want != "") || ok && (len(got.Targets) != 1 || got.Targets[0] != c.want) {
			t.Errorf("%s: %v %v, want %q", name, got.Targets, ok, c.want)
		}
	}
	got, _ := Of(machine(func(p *mesh.Proxy) { p.Version, p.Network = strings.Repeat("x", longest+1), "a\nb" }))
	want := map[string]string{
		"__metrics_path__": "/stats/prometheus", "namespace": "shop", "pod": "vm-1", "app": "web", "__meta_fairway_type": "sidecar",
		"__meta_fairway_service_account": "web", "__meta_fairway_label_app": "web", "__meta_fairway_label_team_example_name": "a",
	}
	if !maps.Equal(got.Labels, want) {
		t.Errorf("labels: %v\nwant %v", got.Labels, want)
	}
}
