package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/trial"
)

// large is a mesh of some services with five endpoints each, and of proxies in ten namespaces.
func large(services, proxies int) *snapshot.Snapshot {
	said := shards.Said{Name: "registry"}
	rows := source.Rows{}
	for i := range services {
		k := mesh.ServiceKey{
			Host: mesh.Host(fmt.Sprintf("s%d.n%d.svc.cluster.local", i, i%10)), Namespace: fmt.Sprintf("n%d", i%10), Registry: "r",
			Object: fmt.Sprintf("s%d", i),
		}
		rows.Services = append(rows.Services, &mesh.Service{
			Key: k, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
			Addresses: []string{fmt.Sprintf("10.96.%d.%d", i/250, i%250)},
		})
		slice := &mesh.Slice{Key: mesh.SliceKey{Service: k, Name: "x"}}
		for j := range 5 {
			at := fmt.Sprintf("10.%d.%d.%d", j, i/250, i%250)
			slice.Endpoints = append(slice.Endpoints, mesh.SliceEndpoint{
				ID: at, Endpoint: mesh.Endpoint{Address: at, Ports: "http=8080", ListsAll: true},
			})
		}
		rows.Slices = append(rows.Slices, slice)
	}
	said.Shards = []source.Shard{{Key: source.ShardKey{Kind: "all"}, Whole: true, Rows: rows}}
	out := &snapshot.Snapshot{Head: snapshot.Head{Format: 1, Options: snapshot.Options{RootNamespace: "istio-system"}}}
	out.Sources = []shards.Said{{Name: "rules"}, said}
	for i := range proxies {
		ns := fmt.Sprintf("n%d", i%10)
		ip := fmt.Sprintf("10.%d.%d.%d", 100+i/62500, i/250%250, i%250)
		p := mesh.Proxy{
			ID: mesh.ProxyID(fmt.Sprintf("sidecar~%s~p%d.%s~%[3]s.svc.cluster.local", ip, i, ns)), IP: ip, IPs: ip,
			Name: fmt.Sprintf("p%d", i), Namespace: ns, Mutual: true, Standing: mesh.Here, DNSDomain: ns + ".svc.cluster.local",
		}
		out.Outside.Proxies = append(out.Outside.Proxies, snapshot.Row[mesh.ProxyID, mesh.Proxy]{Key: p.ID, Value: p})
	}
	return out
}

// BenchmarkPlan measures the steps of a plan at 5,000 services and 10,000 proxies.
func BenchmarkPlan(b *testing.B) {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	change := trial.Changes{Source: "rules", Documents: config.Split("v.yaml", []byte("apiVersion: networking.istio.io/v1\n"+
		"kind: VirtualService\nmetadata: {name: v, namespace: n1}\n"+
		"spec: {hosts: [s1], http: [{timeout: 3s, route: [{destination: {host: s1}}]}]}\n"))}
	took := map[string]time.Duration{}
	step := func(name string, do func()) {
		start := time.Now()
		do()
		took[name] += time.Since(start)
	}
	for b.Loop() {
		s := large(5000, 10_000)
		var file bytes.Buffer
		step("encode", func() { err = snapshot.Encode(&file, s) })
		if err != nil {
			b.Fatal(err)
		}
		size := file.Len()
		step("decode", func() { s, err = snapshot.Decode(&file, d) })
		if err != nil {
			b.Fatal(err)
		}
		var p *Planner
		step("load", func() { p, err = New(s, d) })
		if err != nil {
			b.Fatal(err)
		}
		step("take", func() { snapshot.Take(s.Head, p.World().Shards, p.World().Graph) })
		var out *Plan
		step("plan", func() { out, err = p.Plan(context.Background(), change) })
		if err != nil || out.Proxies != 10_000 {
			b.Fatalf("%v: %+v", err, out)
		}
		b.ReportMetric(float64(size)/1e6, "MB")
	}
	for name, d := range took {
		b.ReportMetric(float64(d.Milliseconds())/float64(b.N), "ms/"+name)
	}
}

// hostile are small objects that make a lot, and a usual one.
var hostile = map[string]string{
	"usual":      "kind: VirtualService\nspec: {hosts: [s1], http: [{timeout: 3s, route: [{destination: {host: s1}}]}]}\n",
	"any host":   "kind: VirtualService\nspec: {hosts: ['*.n1.svc.cluster.local'], http: [{route: [{destination: {host: s1}}]}]}\n",
	"every host": "kind: VirtualService\nspec: {hosts: ['*.svc.cluster.local'], http: [{route: [{destination: {host: s1}}]}]}\n",
	"rule":       "kind: DestinationRule\nspec: {host: '*.n1.svc.cluster.local', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}\n",
	"every rule": "kind: DestinationRule\nspec: {host: '*.svc.cluster.local', trafficPolicy: {loadBalancer: {simple: RANDOM}}}\n",
	"own":        "kind: Sidecar\nspec: {egress: [{hosts: ['./*']}]}\n",
	"imports":    "kind: Sidecar\nspec: {egress: [{hosts: ['n2/*', 'n3/*', 'n4/*', 'n5/*']}]}\n",
	"picked":     "kind: Sidecar\nspec: {workloadSelector: {labels: {a: b}}, egress: [{hosts: ['n2/*', 'n3/*', 'n4/*', 'n5/*']}]}\n",
	"patch": "kind: EnvoyFilter\nspec: {configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, " +
		"patch: {operation: MERGE, value: {connect_timeout: 7s}}}]}\n",
	"entry": "kind: ServiceEntry\nspec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
		"endpoints: [{address: 10.0.0.1}]}\n",
	"strict": "kind: PeerAuthentication\nspec: {mtls: {mode: STRICT}}\n",
	"policy": "kind: AuthorizationPolicy\nspec: {rules: [{to: [{operation: {methods: [GET]}}]}]}\n",
	"keys":   "kind: RequestAuthentication\nspec: {jwtRules: [{issuer: a, jwksUri: 'https://a.example/keys'}]}\n",
}

// BenchmarkRunning is how long turns wait for a plan in a running control plane, and how long its caller does, at 5,000 services and 10,000
// proxies, a thousand of them the caller's.
func BenchmarkRunning(b *testing.B) {
	d, err := config.NewDecoder(config.Options{DefaultNamespace: "n1"})
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(large(5000, 10_000), d)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		b.Run(name, func(b *testing.B) { runHostile(b, p, d, name) })
	}
}

func runHostile(b *testing.B, p *Planner, d *config.Decoder, name string) {
	var held, longest time.Duration
	w := p.world
	trials := trial.New(trial.Options{
		Decoder: d, Shards: w.Shards, Budgets: w.Budgets, Door: w.Door, Graph: w.Graph, Limits: RunningLimits(),
	})
	running := Running(w.Graph, trials, func(_ context.Context, f func()) error {
		start := time.Now()
		f()
		took := time.Since(start)
		held += took
		longest = max(longest, took)
		return nil
	})
	kind, spec, _ := strings.Cut(hostile[name], "\n")
	group := "networking.istio.io/v1"
	switch {
	case strings.Contains(kind, "Auth"):
		group = "security.istio.io/v1"
	case strings.Contains(kind, "EnvoyFilter"):
		group = "networking.istio.io/v1alpha3"
	}
	docs := config.Split("v.yaml", []byte("apiVersion: "+group+"\n"+kind+"\nmetadata: {name: x}\n"+spec))
	refused, resources := 0, 0
	for range b.N {
		out, err := running.PlanFor(b.Context(), "n1", trial.Changes{Source: "rules", Documents: docs})
		switch {
		case errors.Is(err, trial.ErrTooLarge):
			refused = 1
		case err != nil:
			b.Fatal(err)
		default:
			resources = len(out.Resources)
		}
	}
	b.ReportMetric(float64(held.Microseconds())/float64(b.N)/1000, "ms-held/op")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
	b.ReportMetric(float64(refused), "refused")
	b.ReportMetric(float64(resources), "resources")
}
