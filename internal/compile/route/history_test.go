package route_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// state is the content of the inputs at one moment.
type state struct {
	objects map[config.Key]*config.Object
	proxies map[mesh.ProxyID]mesh.Proxy
}

// TestHistory holds that after any history of changes the tables equal those that are computed at once.
func TestHistory(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := state{map[config.Key]*config.Object{}, map[mesh.ProxyID]mesh.Proxy{}}
		w := compiletest.New(t)
		for step := range 25 {
			for range 1 + r.IntN(4) {
				s.change(r, w)
			}
			w.Settle()
			for _, p := range w.Problems() {
				if p.Code == code.Note {
					t.Errorf("seed %d step %d: %s", seed, step, p.Message)
				}
			}
			if err := w.Ambiguous(); err != nil {
				t.Fatalf("seed %d step %d: %v\n%s", seed, step, err, dump(w))
			}
			fresh := compiletest.New(t)
			fresh.In.Apply(source.Batch{Set: source.Rows{Objects: slices.Collect(maps.Values(s.objects))}})
			for id, p := range s.proxies {
				fresh.In.Proxies.Set(id, p)
			}
			fresh.Settle()
			if got, want := dump(w), dump(fresh); got != want {
				t.Fatalf("seed %d step %d: after its history:\n%s\nfrom scratch:\n%s", seed, step, got, want)
			}
		}
	}
}

func dump(w *compiletest.World) string { return w.RouteText() + w.ProblemText() }

// change makes one random change, in the world and in the expected state.
func (s *state) change(r *rand.Rand, w *compiletest.World) {
	if r.IntN(5) == 0 {
		p := mesh.Proxy{
			Namespace: pick(r, "a", "b", "c"),
			Labels:    mesh.Labels(pick(r, "", "app=x", "app=x,v=1", "v=1")),
			Type:      mesh.ProxyType(r.IntN(2)),
		}
		p.ID = mesh.ProxyID(fmt.Sprintf("%v~%s~%s", p.Type, p.Namespace, p.Labels))
		if _, ok := s.proxies[p.ID]; ok {
			delete(s.proxies, p.ID)
			w.In.Proxies.Delete(p.ID)
			return
		}
		s.proxies[p.ID] = p
		w.In.Proxies.Set(p.ID, p)
		return
	}
	o := random(r)
	if _, ok := s.objects[o.Key]; ok && r.IntN(3) == 0 {
		delete(s.objects, o.Key)
		w.In.Apply(source.Batch{Gone: source.Keys{Objects: []config.Key{o.Key}}})
		return
	}
	s.objects[o.Key] = o
	w.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{o}}})
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func hosts() []string {
	return []string{"s0.a.svc.cluster.local", "s1.b.svc.cluster.local", "s1.b", "s1.b.svc", "*.example.com", "x.example.com", "s0"}
}

// random is an object of few kinds and names, so that they meet. It is not a text, because a decoder would refuse most of such objects.
func random(r *rand.Rand) *config.Object {
	namespace, name, host := pick(r, "a", "b", "c"), pick(r, "m", "n"), pick(r, hosts()...)
	exportTo := pick(r, nil, []string{"*"}, []string{"."}, []string{"a"})
	var kind config.Kind
	var spec proto.Message
	switch r.IntN(6) {
	case 0, 1:
		kind, spec = "ServiceEntry", &networking.ServiceEntry{
			Hosts:      []string{host},
			ExportTo:   exportTo,
			Resolution: networking.ServiceEntry_STATIC,
			Addresses:  pick(r, nil, []string{"10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.2/32", "fd00::1"}),
			Ports:      []*networking.ServicePort{{Number: pick(r, uint32(80), 81), Name: "http", Protocol: pick(r, "HTTP", "TCP")}},
		}
	case 2, 3:
		kind, spec = "VirtualService", randomRule(r, exportTo)
	case 4:
		kind, spec = "DestinationRule", &networking.DestinationRule{
			Host:     host,
			ExportTo: exportTo,
			TrafficPolicy: &networking.TrafficPolicy{
				LoadBalancer: &networking.LoadBalancerSettings{
					LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
						ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
							HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: pick(r, "x", "y")}},
					},
				},
			},
			Subsets: []*networking.Subset{{Name: pick(r, "v1", "v2")}},
		}
	default:
		kind, spec = pick2(r, func() (config.Kind, proto.Message) {
			return "Gateway", &networking.Gateway{Selector: pick(r, nil, map[string]string{"app": "x"}), Servers: []*networking.Server{
				{
					Port:  &networking.Port{Number: 80, Name: "p", Protocol: pick(r, "HTTP", "TCP")},
					Hosts: []string{pick(r, "*", "*.example.com", "a/x.example.com")},
					Tls:   pick(r, nil, &networking.ServerTLSSettings{HttpsRedirect: true}),
				},
			}}
		}, func() (config.Kind, proto.Message) {
			return "Sidecar", &networking.Sidecar{
				WorkloadSelector: pick(r, nil, &networking.WorkloadSelector{Labels: map[string]string{"v": "1"}}),
				Egress: []*networking.IstioEgressListener{
					{
						Hosts: []string{pick(r, "*/*", "./*", "b/*")},
						Port:  pick(r, nil, &networking.SidecarPort{Number: 81, Protocol: "HTTP", Name: "p"}),
					},
				},
			}
		})
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return &config.Object{
		Key:     config.Key{Kind: kind, Namespace: namespace, Name: name},
		Spec:    spec,
		Hash:    xxhash.Sum64(body),
		Created: int64(name[0]),
		Ref:     mesh.ObjectRef{Kind: string(kind), Namespace: namespace, Name: name},
	}
}

func pick2(r *rand.Rand, of ...func() (config.Kind, proto.Message)) (config.Kind, proto.Message) {
	return pick(r, of...)()
}

func randomRule(r *rand.Rand, exportTo []string) *networking.VirtualService {
	to := func() []*networking.HTTPRouteDestination {
		return []*networking.HTTPRouteDestination{
			{Destination: &networking.Destination{Host: pick(r, hosts()...), Subset: pick(r, "", "v1")}},
		}
	}
	m := &networking.HTTPMatchRequest{SourceLabels: pick(r, nil, map[string]string{"app": "x"}), SourceNamespace: pick(r, "", "b")}
	spec := &networking.VirtualService{
		Hosts:    []string{pick(r, hosts()...)},
		ExportTo: exportTo,
		Gateways: pick(r, nil, []string{"m"}, []string{"mesh", "a/n"}),
		Http:     []*networking.HTTPRoute{{Match: []*networking.HTTPMatchRequest{m}, Route: to()}, {Route: to()}},
	}
	if r.IntN(3) == 0 {
		spec.Tcp = []*networking.TCPRoute{
			{Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: pick(r, hosts()...)}}}},
		}
	}
	return spec
}
