package route_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/route/routetest"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// entry is a service; rule and subsets are what is said of it; edge what a gateway serves of it.
func entry(i int) *config.Object {
	host := fmt.Sprintf("s%d.default.svc.cluster.local", i)
	return fabricate(
		"ServiceEntry",
		fmt.Sprintf("s%d", i),
		uint64(i),
		&networking.ServiceEntry{Hosts: []string{host}, Resolution: networking.ServiceEntry_STATIC,
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}},
	)
}

func rule(i int, gateway string, path string) *config.Object {
	host := fmt.Sprintf("s%d.default.svc.cluster.local", i)
	spec := &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{
		{Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: path}}}},
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host, Subset: "v2"}}}},
		{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host, Subset: "v1"}}}},
	}}
	name := fmt.Sprintf("s%d", i)
	if gateway != "" {
		spec.Gateways, spec.Hosts, name = []string{gateway}, []string{fmt.Sprintf("s%d.example.com", i)}, "edge-"+name
	}
	return fabricate("VirtualService", name, uint64(len(path))<<32|uint64(i), spec)
}

func subsets(i int) *config.Object {
	return fabricate(
		"DestinationRule",
		fmt.Sprintf("s%d", i),
		uint64(i),
		&networking.DestinationRule{
			Host: fmt.Sprintf("s%d.default.svc.cluster.local", i),
			Subsets: []*networking.Subset{
				{Name: "v1", Labels: map[string]string{"v": "1"}},
				{Name: "v2", Labels: map[string]string{"v": "2"}},
			},
		},
	)
}

func fabricate(kind config.Kind, name string, hash uint64, spec proto.Message) *config.Object {
	return &config.Object{Key: config.Key{Kind: kind, Namespace: "default", Name: name}, Spec: spec, Hash: hash, Created: 1,
		Ref: mesh.ObjectRef{Kind: string(kind), Namespace: "default", Name: name}}
}

// build makes a mesh of n services, each with a host at a gateway; a fifth have rules. Sidecars of two namespaces and a
// gateway are connected.
func build(n int) *routetest.World {
	w := routetest.New()
	w.Connect("sidecar default 10.0.0.1\nsidecar other 10.0.0.2\nrouter infra 10.0.0.3 istio=ingress")
	set := []*config.Object{fabricate("Gateway", "edge", 1, &networking.Gateway{Selector: map[string]string{"istio": "ingress"},
		Servers: []*networking.Server{{Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}}}})}
	for i := range n {
		set = append(set, entry(i), rule(i, "edge", "/a"))
		if i%5 == 0 {
			set = append(set, rule(i, "", "/a"), subsets(i))
		}
	}
	w.In.Apply(source.Batch{Set: source.Rows{Objects: set}})
	w.Store.Settle()
	return w
}

// cost applies a change and counts the rows that the tables of route and gateway recompute.
func cost(w *routetest.World, objects ...*config.Object) (rows int, text string) {
	w.In.Apply(source.Batch{Set: source.Rows{Objects: objects}})
	return count(w.Store.Settle())
}

func count(turn table.Turn) (rows int, text string) {
	for _, t := range turn.Tables {
		if strings.HasPrefix(t.Name, "route/") || strings.HasPrefix(t.Name, "gateway/") {
			rows += t.Recomputed
			text += fmt.Sprintf("%s %d; ", t.Name, t.Recomputed)
		}
	}
	return rows, text
}

// TestFlat holds that a change costs the same rows in a mesh of 100 services and of 5,000.
func TestFlat(t *testing.T) {
	changes := map[string]func(w *routetest.World) (int, string){
		"one rule of sidecars changed": func(w *routetest.World) (int, string) { return cost(w, rule(5, "", "/bb")) },
		"one rule of a gateway changed": func(w *routetest.World) (int, string) {
			return cost(w, rule(7, "edge", "/bb"))
		},
		"one DestinationRule changed": func(w *routetest.World) (int, string) {
			o := subsets(10)
			o.Hash++
			return cost(w, o)
		},
		"one service added":           func(w *routetest.World) (int, string) { return cost(w, entry(9001)) },
		"one host added to a gateway": func(w *routetest.World) (int, string) { return cost(w, rule(9002, "edge", "/a")) },
	}
	small, large := build(100), build(5000)
	for name, change := range changes {
		few, _ := change(small)
		many, text := change(large)
		if few != many || few == 0 {
			t.Errorf("%s: %d rows at 100 services, %d at 5,000: %s", name, few, many, text)
		}
		if few > 12 {
			t.Errorf("%s: %d rows: %s", name, few, text)
		}
	}
}

// BenchmarkFirstTurn measures a cold start of all tables up to the gateway's.
func BenchmarkFirstTurn(b *testing.B) {
	for b.Loop() {
		start := time.Now()
		w := build(5000)
		b.ReportMetric(float64(len(w.VirtualHosts())), "hosts")
		b.ReportMetric(time.Since(start).Seconds()*1000, "ms")
	}
}
