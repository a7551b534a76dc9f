package trial_test

import (
	"fmt"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/trial"
)

// BenchmarkTry is how long turns and readers wait for a trial of so many objects, in meshes of different sizes with 100 proxies: a rule for
// one service each. look goes through the differences of each proxy.
func BenchmarkTry(b *testing.B) {
	decoder := newDecoder(b)
	decode := func(text string) *config.Object {
		o, problems := decoder.Decode(config.Document{File: "test.yaml", Line: 1, Text: []byte(text)})
		if o == nil {
			b.Fatal(problems)
		}
		return o
	}
	for _, services := range []int{1000, 5000} {
		p := newPlane(b, decoder, time.Hour)
		var rows source.Rows
		for i := range services {
			rows.Objects = append(rows.Objects, decode(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"+
				"metadata: {name: s%[1]d, namespace: ns%[2]d}\nspec: {hosts: [s%[1]d.example], "+
				"ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}\n", i, i%50)))
		}
		p.sinks["a"].Apply(source.Update{Synced: true, Shards: []source.Shard{{Rows: rows}}})
		p.sinks["b"].Apply(source.Update{Synced: true})
		for i := range 100 {
			proxy := compiletest.Sidecar(fmt.Sprintf("p%d", i), fmt.Sprintf("ns%d", i%50), fmt.Sprintf("10.1.%d.1", i))
			p.graph.In.Proxies.Set(proxy.ID, proxy)
		}
		p.settle()
		for _, objects := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("services=%d/objects=%d", services, objects), func(b *testing.B) {
				c := trial.Changes{Source: "a"}
				for i := range objects {
					c.Objects = append(c.Objects, decode(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\n"+
						"metadata: {name: v%[1]d, namespace: ns%[2]d}\nspec: {hosts: [s%[1]d.example], http: [{timeout: 3s, route: "+
						"[{destination: {host: s%[1]d.example}}]}]}\n", i*7, i*7%50)))
				}
				d, err := p.trials.Decode(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				var before, looked time.Duration
				reached := 0
				for b.Loop() {
					start := time.Now()
					if err := p.trials.Try(d, func(turn table.Turn, tx *table.Tx) {
						before += time.Since(start)
						looking := time.Now()
						for _, differences := range trial.Differences(p.graph, tx) {
							for range differences {
								reached++
							}
						}
						looked += time.Since(looking)
					}); err != nil {
						b.Fatal(err)
					}
				}
				if reached != 100*objects*b.N {
					b.Errorf("%d differences, want one for each proxy and object", reached/b.N)
				}
				b.ReportMetric(float64(before.Microseconds())/float64(b.N), "µs-until-look/op")
				b.ReportMetric(float64(looked.Microseconds())/float64(b.N), "µs-look/op")
			})
		}
	}
}
