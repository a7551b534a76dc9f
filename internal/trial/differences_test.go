package trial

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

const services = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: b, namespace: bank}
spec: {hosts: [b.example], ports: [{number: 90, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.0.0.2}]}
`

// sees is what each proxy sees: type and name of each resource, and the hash of its bytes.
func sees(w *compiletest.World) map[mesh.ProxyID]map[string]uint64 {
	out := map[mesh.ProxyID]map[string]uint64{}
	for typ := range xdstype.Types {
		for id, all := range w.ByProxy(typ) {
			if out[id] == nil {
				out[id] = map[string]uint64{}
			}
			for name, e := range all {
				if e.Err == nil {
					out[id][typ.String()+" "+name] = e.Version
				}
			}
		}
	}
	return out
}

// TestDifferencesByProxy: a trial has the old and the new resource of each proxy that the same change, if it is really made, gives another
// resource, and of no other proxy.
func TestDifferencesByProxy(t *testing.T) {
	const reviews = "apiVersion: networking.istio.io/v1\nkind: "
	for _, c := range []struct {
		name, set string
		gone      []config.Key
		proxies   int // that get something
	}{
		{name: "a rule for one namespace", proxies: 1, set: reviews + "VirtualService\nmetadata: {name: v, namespace: bank}\n" +
			"spec: {hosts: [a.example], exportTo: [.], http: [{timeout: 3s, route: [{destination: {host: a.example}}]}]}\n"},
		{name: "a rule for all", proxies: 3, set: reviews + "DestinationRule\nmetadata: {name: d, namespace: shop}\n" +
			"spec: {host: a.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}\n"},
		{name: "a Sidecar", proxies: 2, set: reviews + "Sidecar\nmetadata: {name: s, namespace: shop}\n" +
			"spec: {egress: [{hosts: [\"./*\"]}]}\n"},
		{name: "a service goes", proxies: 3, gone: []config.Key{{Kind: "ServiceEntry", Namespace: "bank", Name: "b"}}},
		{name: "nothing", set: services},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := compiletest.New(t)
			w.Apply(services)
			w.Connect(compiletest.Sidecar("p", "shop", "10.1.0.1"), compiletest.Sidecar("q", "shop", "10.1.0.2"),
				compiletest.Sidecar("r", "bank", "10.1.0.3"))
			w.Settle()
			before := sees(w)
			tried := map[mesh.ProxyID]map[string][2]uint64{}
			var views *Views
			together := 0
			b := source.Batch{Set: source.Rows{Objects: w.Decode(c.set)}, Gone: source.Keys{Objects: c.gone}}
			w.Try(b, func(_ table.Turn, tx *table.Tx) {
				for id, differences := range Differences(w.Graph, tx) {
					for d := range differences {
						if tried[id] == nil {
							tried[id] = map[string][2]uint64{}
						}
						tried[id][d.Type.String()+" "+d.Name] = [2]uint64{version(d.Old), version(d.New)}
					}
				}
				views = Compare(w.Graph, tx, nil)
				for ids, differences := range views.Differences() {
					list := slices.Collect(differences)
					for _, id := range ids {
						for _, d := range list {
							together++
							if got := tried[id][d.Type.String()+" "+d.Name]; got != [2]uint64{version(d.Old), version(d.New)} {
								t.Errorf("%s, %s %s: together %d, alone %d", id, d.Type, d.Name, version(d.New), got)
							}
						}
					}
				}
			})
			for _, all := range tried {
				together -= len(all)
			}
			if together != 0 {
				t.Errorf("together there are %d more differences", together)
			}
			seen := map[mesh.ProxyID]map[string]uint64{}
			w.Store.Read(func(tx *table.Tx) {
				for id, all := range tried {
					seen[id] = map[string]uint64{}
					for typ := range xdstype.Types {
						for name := range all {
							if rest, is := strings.CutPrefix(name, typ.String()+" "); is {
								if e := views.After(tx, id, typ, rest); e != nil {
									seen[id][name] = e.Version
								}
							}
						}
					}
				}
			})
			if diff := cmp.Diff(before, sees(w)); diff != "" {
				t.Errorf("the trial is not taken back:\n%s", diff)
			}
			w.In.Apply(b)
			w.Settle()
			after, want := sees(w), map[mesh.ProxyID]map[string][2]uint64{}
			for id := range before {
				names := maps.Clone(before[id])
				maps.Copy(names, after[id])
				for _, name := range slices.Sorted(maps.Keys(names)) {
					if was, is := before[id][name], after[id][name]; was != is {
						if want[id] == nil {
							want[id] = map[string][2]uint64{}
						}
						want[id][name] = [2]uint64{was, is}
					}
				}
			}
			for id, all := range seen {
				for name, version := range all {
					if after[id][name] != version {
						t.Errorf("%s, %s: once the trial was over it had version %d, want %d", id, name, version, after[id][name])
					}
				}
			}
			if diff := cmp.Diff(want, tried); diff != "" || len(tried) != c.proxies {
				t.Errorf("%d proxies would get something, want %d; -made +tried:\n%s", len(tried), c.proxies, diff)
			}
		})
	}
}

func version(e *envoy.Encoded) uint64 {
	if e == nil {
		return 0
	}
	return e.Version
}

// TestKeptResources: a row that may not be sent differs from none, and what can be sent again does.
func TestKeptResources(t *testing.T) {
	bad, good := &envoy.Encoded{Err: errors.New("no")}, &envoy.Encoded{Version: 1}
	for _, c := range []struct {
		old, now *envoy.Encoded
		same     bool
	}{
		{nil, nil, true}, {good, good, true}, {good, &envoy.Encoded{Version: 2}, false}, {good, bad, true}, {nil, bad, true},
		{bad, good, false}, {bad, nil, false}, {good, nil, false},
	} {
		if same(c.old, c.now) != c.same {
			t.Errorf("%+v and %+v: want %t", c.old, c.now, c.same)
		}
	}
}
