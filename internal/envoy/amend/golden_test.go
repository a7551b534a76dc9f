package amend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/rogpeppe/go-internal/diff"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"fairway/internal/golden"
)

// TestGolden applies each patch of patches.yaml to a copy of base.yaml, in each testdata/*.txtar. The comment's last line names the kind of
// the message and the context. want has the hook of each patch and the changes that it makes.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		kind, context := a.Words()[0], Context(networking.EnvoyFilter_PatchContext_value[a.Words()[1]])
		var patches []map[string]any
		if err := yaml.Unmarshal(a.File("patches.yaml"), &patches); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, one := range patches {
			text, err := yaml.Marshal(one["patch"])
			if err != nil {
				t.Fatal(err)
			}
			raw := &networking.EnvoyFilter_EnvoyConfigObjectPatch{}
			into(t, text, raw)
			fmt.Fprintf(&got, "# %s\n", one["case"])
			p, field, err := Read(raw)
			if err != nil {
				fmt.Fprintf(&got, "%s: %s\n", field, strings.ReplaceAll(err.Error(), "\u00a0", " "))
				continue
			}
			base := bases[kind]()
			into(t, a.File("base.yaml"), base)
			apply(t, &got, p, context, base)
		}
		a.Result(t, "want", got.String())
	})
}

var bases = map[string]func() proto.Message{
	"cluster":   func() proto.Message { return &clusterv3.Cluster{} },
	"listener":  func() proto.Message { return &listenerv3.Listener{} },
	"routes":    func() proto.Message { return &routev3.RouteConfiguration{} },
	"extension": func() proto.Message { return &corev3.TypedExtensionConfig{} },
}

func into(t *testing.T, text []byte, m proto.Message) {
	t.Helper()
	body, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
}

// apply writes how a patch changes a message.
func apply(t *testing.T, out *strings.Builder, p *Patch, context Context, m proto.Message) {
	t.Helper()
	before, open := text(t, m), &Open{}
	var changed Changed
	var err error
	may := true
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if may = p.MayChangeCluster(context, m.GetName()); may {
			changed, err = p.ChangeCluster(open, m)
		}
	case *listenerv3.Listener:
		if may = p.MayChangeListener(context); may {
			changed, err = p.ChangeListener(context, open, m)
		}
	case *routev3.RouteConfiguration:
		may = p.MayChangeRoutes(context, m.GetName())
		changed, err = p.ChangeRoutes(context, open, m)
	case *corev3.TypedExtensionConfig:
		may = p.Extension(context) != nil
		var now *corev3.TypedExtensionConfig
		if now, changed.Matched, err = p.Extend(m); now != m {
			proto.Reset(m)
			proto.Merge(m, now)
		}
	}
	open.Pack()
	if hook, is := hookOf(p); is {
		fmt.Fprintf(out, "hook %s %q\n", hook.Kind, hook.Name)
	}
	if added := p.Added(context); added != nil {
		fmt.Fprintf(out, "adds one of its own: %v\n", p.Adds())
	}
	switch {
	case err != nil:
		fmt.Fprintf(out, "error: %s\n", strings.ReplaceAll(err.Error(), "\u00a0", " "))
	case !may:
		out.WriteString("not for it\n")
	case !changed.Matched:
		out.WriteString("does not match\n")
	case changed.Gone:
		out.WriteString("removed\n")
	}
	lines := strings.Split(string(diff.Diff("", before, "", text(t, m))), "\n")
	for _, line := range lines[min(3, len(lines)):] {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// hookOf returns what the patch is found by.
func hookOf(p *Patch) (Hook, bool) {
	for _, of := range []func() (Hook, bool){p.ClusterHook, p.HostHook, p.RoutesHook, p.ListenerHook} {
		if h, is := of(); is {
			return h, true
		}
	}
	return Hook{}, false
}

func text(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.JSONToYAML(body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHooks: a resource is found by its name, its port and its service, before it is decoded, and by its content afterwards.
func TestHooks(t *testing.T) {
	said := func(hooks []Hook) string {
		var out []string
		for _, h := range hooks {
			if out = append(out, h.Kind+"="+h.Name); h.Inside() != slices.Contains([]string{"service", "domain", "address"}, h.Kind) ||
				h.OfAddress() != (h.Kind == "address") {
				t.Errorf("%v: inside %v, of an address %v", h, h.Inside(), h.OfAddress())
			}
		}
		return strings.Join(out, " ")
	}
	inbound := &clusterv3.Cluster{}
	into(t, []byte(`{name: "inbound|80||", metadata: {filterMetadata: {istio: {services: [{host: a.test}, {host: b.test}]}}}}`), inbound)
	outbound := proto.CloneOf(inbound)
	outbound.Name = "outbound|80||a.test"
	listener := func(name string) *listenerv3.Listener {
		return &listenerv3.Listener{Name: name,
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 15006},
			}}}}
	}
	ports := func(name string) []Hook {
		out, all := PortHooks(listener(name))
		if all != (name == "virtualInbound") {
			t.Errorf("%s has chains of every port: %v", name, all)
		}
		return out
	}
	for _, c := range []struct {
		name string
		got  []Hook
		want string
	}{
		{"a cluster", ClusterHooks("outbound|80|v1|a.test"), "= name=outbound|80|v1|a.test port=80 service=a.test"},
		{"an inbound cluster", ClusterHooks("inbound|80||"), "= name=inbound|80|| port=80"},
		{"a cluster of its own", ClusterHooks("xds|grpc"), "= name=xds|grpc"},
		{"services of an inbound cluster", ServiceHooks(inbound), "service=a.test service=b.test"},
		{"services of an outbound cluster", ServiceHooks(outbound), ""},
		{"a listener", ListenerHooks("0.0.0.0_80"), "= name=0.0.0.0_80"},
		{"the port of a listener", ports("0.0.0.0_15006"), "address=15006"},
		{"the port of all inbound listeners", ports("virtualInbound"), "address=15006"},
		{"routes of a port", RoutesHooks("80"), "= name=80 port=80"},
		{"routes of a gateway", RoutesHooks("https.443.web.main.shop"), "= name=https.443.web.main.shop port=443"},
		{"routes of plain HTTP at a gateway", RoutesHooks("http.8080"), "= name=http.8080 port=8080"},
		{"inbound routes", RoutesHooks("inbound|7070||"), "= name=inbound|7070|| port=7070"},
		{"routes of a host", RoutesHooks("a.test:90"), "= name=a.test:90 port=90"},
		{"routes of a host of many labels", RoutesHooks("a.b.c.d.e:90"), "= name=a.b.c.d.e:90 port=90"},
		{"routes that are called like a gateway's", RoutesHooks("https.443.web:90"), "= name=https.443.web:90 port=90"},
		{"routes that are called like a port's", RoutesHooks("http.a.b:90"), "= name=http.a.b:90 port=90"},
		{"a virtual host", HostHooks("80", "80/a.test:80"), "= name=80 port=80 host=a.test:80"},
		{"domains", DomainHooks(&routev3.VirtualHost{Domains: []string{"a", "b"}}), "domain=a domain=b"},
	} {
		if got := said(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestContexts: names and directions say which resources of a sidecar are inbound.
func TestContexts(t *testing.T) {
	for name, want := range map[string]Context{
		"inbound|80||": Inbound, "InboundPassthroughCluster": Inbound, "outbound|80||a": Outbound, "PassthroughCluster": Outbound,
	} {
		if got := ClusterContext(name); got != want {
			t.Errorf("cluster %s: %v", name, got)
		}
	}
	for name, want := range map[string]Context{"inbound|80||": Inbound, "80": Outbound, "inbound.test:80": Outbound} {
		if got := RoutesContext(name); got != want {
			t.Errorf("routes %s: %v", name, got)
		}
	}
	for want, l := range map[Context][]*listenerv3.Listener{
		Inbound: {
			{Name: "virtualInbound", TrafficDirection: corev3.TrafficDirection_UNSPECIFIED},
			{Name: "10.0.0.1_80", TrafficDirection: corev3.TrafficDirection_INBOUND},
		},
		Outbound: {{Name: "virtualOutbound", TrafficDirection: corev3.TrafficDirection_OUTBOUND}},
	} {
		for _, l := range l {
			if got := ListenerContext(l); got != want {
				t.Errorf("listener %s: %v", l.GetName(), got)
			}
		}
	}
}
