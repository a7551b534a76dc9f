package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// beyond is the sink behind a gate: the objects in force, and the problems of the others.
type beyond struct {
	objects  map[config.Key]*config.Object
	problems map[source.Place][]mesh.Problem
}

func (b *beyond) Apply(in source.Batch) {
	for _, k := range in.Gone.Objects {
		delete(b.objects, k)
	}
	for _, o := range in.Set.Objects {
		b.objects[o.Key] = o
	}
	maps.Copy(b.problems, in.Problems)
}

func (b *beyond) Has(k config.Key) bool { return b.objects[k] != nil }

type bed struct {
	*testing.T
	*beyond
	gate *Gate
}

func start(t *testing.T) bed {
	b := &beyond{map[config.Key]*config.Object{}, map[source.Place][]mesh.Problem{}}
	return bed{t, b, New(Options{DomainSuffix: "cluster.local", RootNamespace: "istio-system"}, b)}
}

func object(kind config.Kind, name string, spec proto.Message) *config.Object {
	k := config.Key{Kind: kind, Namespace: "evil", Name: name}
	return config.NewMade(k, &config.Object{Key: k, Ref: mesh.ObjectRef{Kind: string(kind), Namespace: "evil", Name: name}}, spec, nil)
}

func (b bed) set(objects ...*config.Object) {
	b.gate.Apply(source.Batch{Set: source.Rows{Objects: objects}})
}

func (b bed) gone(objects ...*config.Object) {
	var keys []config.Key
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	b.gate.Apply(source.Batch{Gone: source.Keys{Objects: keys}})
}

// want checks which version of an object is in force (nil: none), and whether its problem contains a text.
func (b bed) want(step string, k config.Key, version *config.Object, says string) {
	b.Helper()
	if got := b.objects[k]; got != version {
		b.Errorf("%s: %s in force: %v, want %v", step, k, got != nil, version != nil)
	}
	var said []string
	for _, p := range b.problems[source.Place{Source: "budget", Name: k.String()}] {
		if p.Code != code.OverBudget || p.Severity != mesh.Error {
			b.Errorf("%s: %s", step, p)
		}
		said = append(said, p.Message)
	}
	if all := strings.Join(said, "\n"); says == "" && all != "" || !strings.Contains(all, says) {
		b.Errorf("%s: the problems of %s are %q, want %q", step, k, all, says)
	}
}

func names(n int, pattern string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(pattern, i))
	}
	return out
}

func entry(name string, hosts, ports, endpoints int) *config.Object {
	se := &networking.ServiceEntry{Hosts: names(hosts, "h%d."+name+".example"), Resolution: networking.ServiceEntry_STATIC}
	for i := range ports {
		se.Ports = append(se.Ports, &networking.ServicePort{Number: uint32(1000 + i), Name: fmt.Sprint("http-", i), Protocol: "HTTP"})
	}
	for i := range endpoints {
		se.Endpoints = append(se.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250)})
	}
	return object(config.ServiceEntry, name, se)
}

func routes(name string, hosts, n int, delegates ...string) *config.Object {
	vs := &networking.VirtualService{Hosts: names(hosts, "h%d.example")}
	for i := range n {
		uri := &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: fmt.Sprint("/", i)}}
		vs.Http = append(vs.Http, &networking.HTTPRoute{
			Match: []*networking.HTTPMatchRequest{{Uri: uri}},
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "reviews"}}},
		})
	}
	for _, d := range delegates {
		vs.Http = append(vs.Http, &networking.HTTPRoute{Delegate: &networking.Delegate{Name: d}})
	}
	return object(config.VirtualService, name, vs)
}

func subsets(name, host string, n int) *config.Object {
	dr := &networking.DestinationRule{Host: host}
	for i := range n {
		dr.Subsets = append(dr.Subsets, &networking.Subset{Name: fmt.Sprint("v", i), Labels: map[string]string{"version": fmt.Sprint(i)}})
	}
	return object(config.DestinationRule, name, dr)
}

func patches(name string, n int) *config.Object {
	ef := &networking.EnvoyFilter{}
	for range n {
		ef.ConfigPatches = append(ef.ConfigPatches, &networking.EnvoyFilter_EnvoyConfigObjectPatch{
			ApplyTo: networking.EnvoyFilter_CLUSTER, Patch: &networking.EnvoyFilter_Patch{Operation: networking.EnvoyFilter_Patch_MERGE},
		})
	}
	return object(config.EnvoyFilter, name, ef)
}

// services returns n services of a registry, with so many ports each.
func services(n, ports int) (out []*mesh.Service) {
	for i := range n {
		s := &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(fmt.Sprintf("s%d.shop.svc.cluster.local", i)), Namespace: "shop"}}
		s.Ports = make([]mesh.Port, ports)
		out = append(out, s)
	}
	return out
}

// TestLargeObjectsAreRefused: for each kind, an object with numbers that multiply beyond the budget is not in force, and its problem names
// the numbers.
func TestLargeObjectsAreRefused(t *testing.T) {
	for _, c := range []struct {
		object *config.Object
		says   string
	}{
		{entry("wide", 256, 256, 4096), "256 hosts × 256 ports"},
		{entry("bytes", 8, 32, 4096), "MiB"},
		{routes("square", 4000, 4000), "4000 hosts × 4000 routes"},
		{subsets("any", "*.evil.example", 2000), "2000 subsets × each port below *.evil.example"},
		{patches("merge", 1000), "1000 patches"},
	} {
		b := start(t)
		b.gate.Apply(source.Batch{Set: source.Rows{Services: services(1000, 1)}})
		b.set(c.object)
		want := strings.Replace(c.says, "2000 subsets", "2001 subsets", 1)
		b.want("alone", c.object.Key, nil, want)
		b.want("alone", c.object.Key, nil, "it is not in force")
	}
}

// TestUsualObjectsPass: large rules that users have are in force.
func TestUsualObjectsPass(t *testing.T) {
	b := start(t)
	b.gate.Apply(source.Batch{Set: source.Rows{Services: services(5000, 3)}})
	for _, o := range []*config.Object{
		entry("external", 200, 2, 20), routes("many", 400, 300), routes("one", 1, 5000), subsets("mesh", "*.local", 4),
		subsets("one", "a.example", 100), patches("usual", 10),
	} {
		b.set(o)
		b.want("usual", o.Key, o, "")
	}
	if n := len(b.gate.tracked); n > 5 {
		t.Errorf("%d objects are remembered", n)
	}
}

// TestLastGoodVersionStays: a version that is over the budget changes nothing, one that is within it does, and a removal removes.
func TestLastGoodVersionStays(t *testing.T) {
	b := start(t)
	good, bad, better := entry("e", 2, 20, 2), entry("e", 256, 256, 4096), entry("e", 3, 30, 2)
	b.set(good)
	b.set(bad)
	b.want("bad", good.Key, good, "its last good version stays")
	b.set(better)
	b.want("better", good.Key, better, "")
	b.set(bad)
	b.gone(bad)
	b.want("gone", good.Key, nil, "")
	if len(b.gate.tracked)+len(b.gate.used)+len(b.gate.full)+len(b.gate.entries)+len(b.gate.around.hosts) > 0 || b.gate.ports != 0 {
		t.Errorf("something is remembered: %d held, %v used, %v ports", len(b.gate.tracked), b.gate.used, b.gate.ports)
	}
}

// TestDelegatesAreJoinedWithinABudget: if objects come together, the VirtualService that delegates is refused; later a version is refused
// if it makes that one too large.
func TestDelegatesAreJoinedWithinABudget(t *testing.T) {
	root, leaf, small := routes("root", 1, 0, slices.Repeat([]string{"d"}, 1000)...), routes("d", 0, 1000), routes("d", 0, 2)
	for _, order := range [][]*config.Object{{root, leaf}, {leaf, root}} {
		b := start(t)
		b.set(order...)
		b.want("together", leaf.Key, leaf, "")
		b.want("together", root.Key, nil, "1000000 routes, and a VirtualService may get 5000")
		b.set(small)
		b.want("small", root.Key, root, "")
		b.set(leaf)
		b.want("large again", leaf.Key, small, "VirtualService evil/root delegates to it")
		b.want("large again", root.Key, root, "")
		// A refused version of the root hides no objects that are in force.
		b.set(routes("root", 1, 0, slices.Repeat([]string{"d", "e"}, 3000)...))
		b.want("larger root", root.Key, root, "last good version")
		b.set(leaf)
		b.want("large behind it", leaf.Key, small, "delegates to it")
	}
}

// TestTheMeshGrowsOverARule: a rule that fits the budget in a small mesh leaves force when the mesh grows, and comes back.
func TestTheMeshGrowsOverARule(t *testing.T) {
	b := start(t)
	rule := patches("merge", 1000)
	b.gate.Apply(source.Batch{Set: source.Rows{Services: services(10, 1)}})
	b.set(rule)
	b.want("small mesh", rule.Key, rule, "")
	all := services(1000, 1)
	b.gate.Apply(source.Batch{Set: source.Rows{Services: all}})
	b.want("large mesh", rule.Key, nil, "1000 patches")
	var gone []mesh.ServiceKey
	for _, s := range all[10:] {
		gone = append(gone, s.Key)
	}
	b.gate.Apply(source.Batch{Gone: source.Keys{Services: gone}})
	b.want("small again", rule.Key, rule, "")
}

// TestAHostGrowsOverARule: subsets multiply with the ports of a host that comes later.
func TestAHostGrowsOverARule(t *testing.T) {
	b := start(t)
	rule := subsets("r", "h0.e.example", 1000)
	b.set(rule)
	b.want("unknown host", rule.Key, rule, "")
	b.set(entry("e", 1, 256, 1))
	b.want("wide host", rule.Key, nil, "1001 subsets × 256 ports")
	b.set(entry("e", 1, 2, 1))
	b.want("small host", rule.Key, rule, "")
}

// TestAGatewayGrowsOverARoute: the routes of an object multiply with the listeners of Gateways that come later, or that it names already.
func TestAGatewayGrowsOverARoute(t *testing.T) {
	kubernetes := func(kind config.Kind, name string, spec any) *config.Object {
		o := object(kind, name, &structpb.Struct{})
		o.Native = spec
		return o
	}
	listens := func(name string, n int) *config.Object {
		return kubernetes(config.KubernetesGateway, name, &gatewayv1.GatewaySpec{Listeners: make([]gatewayv1.Listener, n)})
	}
	spec := &native.HTTPRouteSpec{Hostnames: make([]gatewayv1.Hostname, 16), Rules: make([]native.HTTPRouteRule, 16)}
	for i := range spec.Rules {
		spec.Rules[i].Matches = make([]gatewayv1.HTTPRouteMatch, 8)
	}
	for i := range 32 {
		spec.ParentRefs = append(spec.ParentRefs, gatewayv1.ParentReference{Name: gatewayv1.ObjectName(fmt.Sprint("g", i))})
	}
	route := kubernetes(config.HTTPRoute, "wide", spec)
	var large []*config.Object
	for i := range 32 {
		large = append(large, listens(fmt.Sprint("g", i), 64))
	}
	virtual := routes("virtual", 100, 100)
	config.Spec[*networking.VirtualService](virtual).Gateways = []string{"edge"}
	edge := func(servers int) *config.Object {
		return object(config.Gateway, "edge", &networking.Gateway{Servers: make([]*networking.Server, servers)})
	}
	b := start(t)
	b.set(route, virtual)
	b.want("alone", route.Key, route, "")
	b.want("alone", virtual.Key, virtual, "")
	b.set(append(large, edge(100))...)
	b.want("many listeners", route.Key, nil, "16 hosts × 2048 listeners with 128 matches")
	b.want("many servers", virtual.Key, nil, "100 hosts × 100 routes × 100 gateways")
	b.gone(large...)
	b.set(edge(1))
	b.want("gone", route.Key, route, "")
	b.want("one server", virtual.Key, virtual, "")
	b.gone(route, virtual, edge(1))
	if len(b.gate.tracked)+len(b.gate.routes)+len(b.gate.around.gateways) > 0 {
		t.Errorf("something is remembered: %v, %v, %v", b.gate.tracked, b.gate.routes, b.gate.around.gateways)
	}
}

// TestNamespacesHaveABudget: objects within their own budgets are refused when their namespace is over its budget; objects that are removed
// make room.
func TestNamespacesHaveABudget(t *testing.T) {
	b := start(t)
	var all []*config.Object
	for i := range 20 {
		all = append(all, entry(fmt.Sprintf("e%02d", i), 50, 100, 1))
	}
	b.set(all...)
	in := 0
	for _, o := range all {
		if b.Has(o.Key) {
			in++
		}
	}
	if in != 13 {
		t.Errorf("%d objects of 15,000 resources each are in force, want 13", in)
	}
	b.want("the last", all[19].Key, nil, "namespace evil")
	b.gone(all[0])
	b.want("room", all[13].Key, all[13], "")
}

// TestRefusedPoliciesDeny: if a policy was never in force and is refused, the workloads that it should protect are closed.
func TestRefusedPoliciesDeny(t *testing.T) {
	from := names(50_000, "cluster.local/ns/shop/sa/account-%d")
	for action, rules := range map[security.AuthorizationPolicy_Action]int{
		security.AuthorizationPolicy_ALLOW: 0, security.AuthorizationPolicy_DENY: 1,
	} {
		b := start(t)
		policy := object(config.AuthorizationPolicy, "p", &security.AuthorizationPolicy{
			Action: action, Rules: []*security.Rule{{From: []*security.Rule_From{{Source: &security.Source{Principals: from}}}}},
		})
		b.set(policy)
		got := b.objects[policy.Key]
		if got == nil || got == policy {
			t.Fatalf("%s: no policy stands in", action)
		}
		if spec := config.Spec[*security.AuthorizationPolicy](got); spec.GetAction() != action || len(spec.GetRules()) != rules {
			t.Errorf("%s: what stands in is %v", action, spec)
		}
		b.want(action.String(), policy.Key, got, "denies every request")
		b.gone(policy)
		b.want("gone", policy.Key, nil, "")
	}
}

// TestBudgetIsSettable: the mesh configuration raises a budget and lowers it again, for objects that exist already.
func TestBudgetIsSettable(t *testing.T) {
	b := start(t)
	e := entry("e", 200, 200, 1)
	b.set(e)
	b.want("default", e.Key, nil, "may make 20000")
	settings := &config.Object{Key: config.Key{Kind: config.MeshConfig}, Spec: &meshconfig.MeshConfig{
		DefaultConfig: &meshconfig.ProxyConfig{ProxyMetadata: map[string]string{config.BudgetKey: "objectResources=150000, objectMiB=200"}},
	}}
	b.set(settings)
	b.want("raised", e.Key, e, "")
	b.gone(settings)
	b.want("lowered", e.Key, nil, "it is not in force")
}

// TestOwnEntriesGiveNoRoom: a namespace's own ServiceEntries do not let its rules multiply more with them, and take no room from
// others' rules.
func TestOwnEntriesGiveNoRoom(t *testing.T) {
	b := start(t)
	wild, shops := subsets("wild", "*.example", 15), subsets("shops", "*.local", 4)
	shops.Namespace, shops.Key.Namespace = "shop", "shop"
	b.gate.Apply(source.Batch{Set: source.Rows{Services: services(1000, 3)}})
	b.set(wild, shops)
	b.want("alone", wild.Key, wild, "")
	for i := range 12 {
		b.set(entry(fmt.Sprintf("e%02d", i), 50, 100, 1))
	}
	b.want("beside own entries", wild.Key, nil, "16 subsets")
	b.want("beside own entries", shops.Key, shops, "")
}

// slicesOf returns so many endpoints of a host, in slices of 100.
func slicesOf(host mesh.Host, endpoints int) (out []*mesh.Slice) {
	service := mesh.ServiceKey{Host: host, Namespace: "evil"}
	for i := 0; i*100 < endpoints; i++ {
		out = append(out, &mesh.Slice{
			Key:       mesh.SliceKey{Service: service, Name: fmt.Sprint(i)},
			Endpoints: make([]mesh.SliceEndpoint, min(100, endpoints-i*100)),
		})
	}
	return out
}

// TestEndpointsOfRegistriesCount: subsets that may all select the same endpoints multiply with those that a registry knows, whichever
// comes first; subsets that share them do not.
func TestEndpointsOfRegistriesCount(t *testing.T) {
	const host = "web.evil.svc.cluster.local"
	all := slicesOf(host, 4096)
	alike, other, few := subsets("r", host, 300), subsets("r", host, 300), subsets("r", host, 4)
	for _, rule := range []*config.Object{alike, few} {
		for _, sub := range config.Spec[*networking.DestinationRule](rule).GetSubsets() {
			sub.Labels = map[string]string{"app": "web"}
		}
	}
	b := start(t)
	b.gate.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{
		{Key: mesh.ServiceKey{Host: host, Namespace: "evil"}, Ports: make([]mesh.Port, 2)},
	}}})
	b.set(alike)
	b.want("no endpoints", alike.Key, alike, "")
	b.gate.Apply(source.Batch{Set: source.Rows{Slices: all}})
	b.want("many endpoints", alike.Key, nil, "with 1228800 endpoints in all subsets of a port")
	b.set(other)
	b.want("subsets share them", other.Key, other, "")
	b.set(alike)
	b.want("alike again", alike.Key, other, "its last good version stays")
	b.gone(alike)
	b.set(few)
	b.want("few", few.Key, few, "")
	b.gate.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{
		{Key: mesh.ServiceKey{Host: host, Namespace: "evil"}, Ports: make([]mesh.Port, 40)},
	}}})
	b.want("few, but of many ports", few.Key, nil, "5 subsets × 40 ports")
	var keys []mesh.SliceKey
	for _, s := range all[1:] {
		keys = append(keys, s.Key)
	}
	b.gate.Apply(source.Batch{Gone: source.Keys{Slices: keys}, Set: source.Rows{Slices: slicesOf(host, 50)}})
	b.want("few endpoints", few.Key, few, "")
	b.gate.Apply(source.Batch{Gone: source.Keys{Slices: []mesh.SliceKey{all[0].Key}}})
	if n := len(b.gate.slices) + len(b.gate.around.listed); n > 0 {
		t.Errorf("%d slices and hosts are remembered", n)
	}
}

// TestJoinedRoutesCountForTheirNamespace: many light VirtualServices that delegate to the same one are over the budget of their
// namespace, whichever comes first.
func TestJoinedRoutesCountForTheirNamespace(t *testing.T) {
	large, small := routes("d", 0, 3500), routes("d", 0, 3)
	var roots []*config.Object
	for i := range 200 {
		roots = append(roots, routes(fmt.Sprintf("root-%03d", i), 1, 0, "d"))
	}
	b := start(t)
	b.set(append(slices.Clone(roots), large)...)
	b.want("together", large.Key, large, "")
	b.want("together, the first", roots[0].Key, roots[0], "")
	b.want("together, the last", roots[199].Key, nil, "namespace evil")
	b.set(small)
	b.want("small", roots[199].Key, roots[199], "")
	b.set(large)
	b.want("large again", large.Key, small, "200 VirtualServices delegate to it, and with it the large objects of namespace evil")
	b.gone(append(roots, large)...)
	if len(b.gate.tracked)+len(b.gate.used)+len(b.gate.full)+len(b.gate.roots) > 0 {
		t.Errorf("something is remembered: %d held, %v used", len(b.gate.tracked), b.gate.used)
	}
}
