package platform_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shown prints rows: a line a service, a slice and a problem.
func shown(s source.Shard, problems []mesh.Problem) string {
	var out strings.Builder
	for _, v := range s.Rows.Services {
		fmt.Fprintf(&out, "%s %s ports %v\n", v.Key, v.Resolution, v.Ports)
	}
	for _, v := range s.Rows.Slices {
		for _, e := range v.Endpoints {
			fmt.Fprintf(&out, "  %s: %s %s labels %q weight %d %s\n", e.ID, e.Address, e.Ports, e.Labels, e.Weight, e.Health)
		}
	}
	for _, p := range problems {
		fmt.Fprintf(&out, "! %s %s %s\n", p.Severity, p.Code, p.Field)
	}
	return out.String()
}

func at(id, address string, port uint32) platform.Instance {
	return platform.Instance{ID: id, Addresses: []string{address}, Port: port}
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		name   string
		naming platform.Naming
		s      platform.Service
		want   string
	}{
		{
			"each port of instances is one", platform.Naming{},
			platform.Service{
				Name: "Web", Protocol: "http", Instances: []platform.Instance{at("b", "10.0.0.2", 81), at("a", "10.0.0.1", 80)},
			},
			"web.service.test default//Web Test/one STATIC ports [http-80:80/HTTP http-81:81/HTTP]\n" +
				"  a: 10.0.0.1 http-80=80 labels \"\" weight 0 HEALTHY\n  b: 10.0.0.2 http-81=81 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"one port that clients address", platform.Naming{Port: 80, Protocol: "grpc", Host: "{name}.{namespace}.svc.cluster.local"},
			platform.Service{Name: "web", Namespace: "shop", Instances: []platform.Instance{
				at("a", "10.0.0.1", 31001), at("b", "::ffff:10.0.0.2", 31002),
			}},
			"web.shop.svc.cluster.local shop/shop/web Test/one STATIC ports [grpc:80/GRPC]\n" +
				"  a: 10.0.0.1 grpc=31001 labels \"\" weight 0 HEALTHY\n  b: 10.0.0.2 grpc=31002 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"metadata goes before the registry's words", platform.Naming{Port: 80},
			platform.Service{
				Name: "web", Meta: map[string]string{"service-port": "9000", "protocol": "tcp"},
				Instances: []platform.Instance{at("a", "10.0.0.1", 1)},
			},
			"web.service.test default//web Test/one STATIC ports [tcp:9000/TCP]\n  a: 10.0.0.1 tcp=1 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"names of ports", platform.Naming{},
			platform.Service{Name: "web", Instances: []platform.Instance{
				{ID: "a", Addresses: []string{"host.example"}, Ports: []platform.Port{{"http", 8080, "http"}, {"https", 8443, "https"}}},
			}},
			"web.service.test default//web Test/one DNS ports [http:8080/HTTP https:8443/HTTPS]\n" +
				"  a: host.example http=8080,https=8443 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"a hostile one", platform.Naming{},
			platform.Service{
				Name: "web", Protocol: "smoke", Meta: map[string]string{"service-port": "70000"}, Instances: []platform.Instance{
					at("a", "10.0.0.1", 80), at("a", "10.0.0.2", 80), at("", "10.0.0.3", 80), at("c", "0.0.0.0", 80),
					at("d", "not a name", 80), at("e", "10.0.0.5", 0), {ID: "f", Port: 80},
					{ID: "g", Addresses: []string{"10.0.0.6"}, Port: 80, Labels: map[string]string{
						"a b": "c", "ok": "x,y", "good": "ü", "bad": "\xff",
					}},
				},
			},
			"web.service.test default//web Test/one STATIC ports [port-80:80/unknown]\n" +
				"  a: 10.0.0.1 port-80=80 labels \"\" weight 0 HEALTHY\n  g: 10.0.0.6 port-80=80 labels \"good=ü\" weight 0 HEALTHY\n" +
				"! error BadPort service-port\n! warning UnknownProtocol protocol\n! warning Duplicate instances\n" +
				"! error BadName instances\n! error BadAddress instances\n! error BadAddress instances\n! error BadPort instances\n" +
				"! error NoAddress instances\n" +
				"! info BadLabel instances\n",
		},
		{
			"names and IPs", platform.Naming{},
			platform.Service{Name: "web", Instances: []platform.Instance{at("a", "a.example", 80), at("b", "10.0.0.1", 80)}},
			"web.service.test default//web Test/one STATIC ports [port-80:80/unknown]\n" +
				"  b: 10.0.0.1 port-80=80 labels \"\" weight 0 HEALTHY\n! error AddressForm instances\n",
		},
		{"no host", platform.Naming{}, platform.Service{Name: "ünï"}, "! error BadHost host\n"},
		{"no name", platform.Naming{}, platform.Service{Name: "\xff"}, "! error BadName name\n"},
		{"no namespace", platform.Naming{}, platform.Service{Name: "a", Namespace: "x.y"}, "! error BadName namespace\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.naming.Validate(); err != nil {
				t.Fatal(err)
			}
			got := shown(platform.NewTranslator("Test/one", c.naming, "{name}.service.test").Rows(&c.s))
			if got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestOneInstanceOfMany: of a service with many instances a change of one touches one slice.
// TestMutual: an instance that says who it is has a proxy, unless a label says otherwise.
func TestMutual(t *testing.T) {
	tr := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test")
	const mode = "security.istio.io/tlsMode"
	for _, c := range []struct {
		identity string
		labels   map[string]string
		want     bool
	}{
		{"", nil, false}, {"web", nil, true}, {"", map[string]string{mode: "istio"}, true},
		{"web", map[string]string{mode: "disabled"}, false}, {"bad\x00name", nil, false},
	} {
		in := at("a", "10.0.0.1", 80)
		in.Identity, in.Labels = c.identity, c.labels
		rows, _ := tr.Rows(&platform.Service{Name: "web", Instances: []platform.Instance{in}})
		if got := rows.Rows.Slices[0].Endpoints[0].MTLS; got != c.want {
			t.Errorf("identity %q, labels %v: mutual TLS %t, want %t", c.identity, c.labels, got, c.want)
		}
	}
}

func TestOneInstanceOfMany(t *testing.T) {
	tr := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test")
	s := platform.Service{Name: "web"}
	for i := range 5000 {
		s.Instances = append(s.Instances, at(fmt.Sprint("i", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), 80))
	}
	before, _ := tr.Rows(&s)
	s.Instances[77].Health = mesh.Draining
	slices.Reverse(s.Instances)
	after, _ := tr.Rows(&s)
	changed := 0
	for i, v := range after.Rows.Slices {
		if !v.Equal(before.Rows.Slices[i]) {
			changed++
		}
	}
	if changed != 1 || len(after.Rows.Slices) != len(before.Rows.Slices) {
		t.Errorf("%d of %d slices changed", changed, len(after.Rows.Slices))
	}
}

// TestWithinBounds: more instances, and more ports, than a service may have are left out and told.
func TestWithinBounds(t *testing.T) {
	s := platform.Service{Name: "web"}
	for i := range platform.MaxInstances + 1 {
		s.Instances = append(s.Instances, at(fmt.Sprint(i), "10.0.0.1", uint32(i%1000+1)))
	}
	shard, problems := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test").Rows(&s)
	if got := len(shard.Rows.Services[0].Ports); got != 100 {
		t.Errorf("%d ports", got)
	}
	if len(problems) != 2 {
		t.Errorf("problems: %v", problems)
	}
}

func TestBadNaming(t *testing.T) {
	err := platform.Naming{Host: "{nam}.{", Namespace: "{host}", Protocol: "smoke", Port: 70000}.Validate("datacenter")
	for _, want := range []string{
		"host: {nam} is not a known placeholder; want {name}, {namespace}, {datacenter}", "gives all services one host", "namespace:",
		"protocol: ", "port: 70000",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// sink keeps what it gets.
type sink struct{ got []source.Update }

func (s *sink) Apply(u source.Update) { s.got = append(s.got, u) }

func TestOutbox(t *testing.T) {
	to := &sink{}
	b := &platform.Outbox{Sink: to}
	begun := time.Now()
	b.Put(begun, nil, nil)
	b.Fresh()
	b.Synced(begun, []source.Shard{{}}, nil)
	b.Synced(begun, []source.Shard{{}}, nil)
	b.Stale(errors.New("away"))
	b.Stale(errors.New("away"))
	b.Fresh()
	got := ""
	for _, u := range to.got {
		got += fmt.Sprintf("%d %t %q %t; ", len(u.Shards), u.Synced, u.Stale, u.Fresh)
	}
	if want := `1 true "" false; 1 false "" false; 0 false "away" false; 0 false "" true; `; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if s := b.Stats(); s.Reconnects != 1 || s.LastChange.Before(begun) {
		t.Errorf("%+v", s)
	}
}
