package registry_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/source"
)

const east = "Kubernetes/east"

// pod is a workload of namespace shop on a machine.
func pod(name, address, on string, labels map[string]string) *mesh.Workload {
	return &mesh.Workload{
		Key:            mesh.WorkloadKey{Registry: east, Namespace: "shop", Name: name},
		Addresses:      address,
		Labels:         mesh.MakeLabels(labels),
		ServiceAccount: "sa-" + name,
		Machine:        mesh.MachineKey{Registry: east, Name: on}.Ref(),
	}
}

func machine(name, locality string) mesh.Machine {
	return mesh.Machine{Key: mesh.MachineKey{Registry: east, Name: name}, Locality: mesh.ParseLocality(locality)}
}

func namespace(labels map[string]string) mesh.Namespace {
	return mesh.Namespace{Key: mesh.NamespaceKey{Registry: east, Name: "shop"}, Labels: mesh.MakeLabels(labels)}
}

// slice is a part of the endpoints of service db, each the pod of its name, with an address from the registry.
func slice(name string, pods ...string) *mesh.Slice {
	key := mesh.ServiceKey{Host: "db.shop.svc.cluster.local", Namespace: "shop", Registry: east, Object: "db"}
	s := &mesh.Slice{Key: mesh.SliceKey{Service: key, Name: name}}
	for _, pair := range pods {
		pod, address, _ := strings.Cut(pair, "=")
		s.Endpoints = append(s.Endpoints, mesh.SliceEndpoint{
			ID:       pod,
			Workload: mesh.WorkloadKey{Registry: east, Namespace: "shop", Name: pod},
			Endpoint: mesh.Endpoint{Address: address},
		})
	}
	return s
}

// rows lists the endpoints, without what all have alike.
func rows(w *compiletest.World) string {
	var out []string
	for _, line := range strings.Split(w.Print("endpoints", ""), "\n")[1:] {
		f := strings.Fields(line)
		if len(f) > 3 {
			out = append(out, strings.Join(f[3:], " "))
		}
	}
	return strings.Join(out, "\n")
}

// An endpoint is completed from the rows of its workload, and of that workload's machine and namespace, in whichever order they come. Each
// change recomputes only the rows that it affects.
func TestSlicesJoinWorkloadsMachinesAndNamespaces(t *testing.T) {
	w := compiletest.New(t)
	steps := []struct {
		name string
		set  source.Rows
		gone source.Keys
		want string
		runs int // of the derivation of endpoints: slices, not endpoints, and workloads by themselves
	}{
		{
			"the slices first",
			source.Rows{Slices: []*mesh.Slice{slice("1", "a=10.0.0.1", "b=10.0.0.2"), slice("2", "c=10.0.0.3")}},
			source.Keys{},
			"a 10.0.0.1\nb 10.0.0.2\nc 10.0.0.3",
			2,
		},
		{"a workload", source.Rows{Workloads: []*mesh.Workload{pod("a", "10.0.0.1", "m1", map[string]string{"app": "db"})}}, source.Keys{},
			"a 10.0.0.1 labels=app=db machine=Kubernetes/east/m1 identity=sa-a", 3}, // what has no workload waits for it
		{"its machine", source.Rows{Machines: []mesh.Machine{machine("m1", "r/z")}}, source.Keys{},
			"a 10.0.0.1 labels=app=db locality=r/z machine=Kubernetes/east/m1 identity=sa-a", 2},
		{"a workload that says where it is", source.Rows{Workloads: []*mesh.Workload{
			pod("c", "10.0.0.3", "m1", map[string]string{"istio-locality": "q.y"}),
		}}, source.Keys{},
			"a 10.0.0.1 labels=app=db locality=r/z machine=Kubernetes/east/m1 identity=sa-a\n" +
				"c 10.0.0.3 labels=istio-locality=q.y locality=q/y machine=Kubernetes/east/m1 identity=sa-c", 2},
		{
			"the namespace's network",
			source.Rows{Namespaces: []mesh.Namespace{namespace(map[string]string{"topology.istio.io/network": "n1"})}},
			source.Keys{},
			"a 10.0.0.1 labels=app=db locality=r/z network=n1 machine=Kubernetes/east/m1 identity=sa-a\n" +
				"c 10.0.0.3 labels=istio-locality=q.y locality=q/y network=n1 machine=Kubernetes/east/m1 identity=sa-c",
			4,
		},
		{"another label of the namespace", source.Rows{Namespaces: []mesh.Namespace{
			namespace(map[string]string{"topology.istio.io/network": "n1", "team": "x"}),
		}}, source.Keys{},
			"a 10.0.0.1 labels=app=db locality=r/z network=n1 machine=Kubernetes/east/m1 identity=sa-a\n" +
				"c 10.0.0.3 labels=istio-locality=q.y locality=q/y network=n1 machine=Kubernetes/east/m1 identity=sa-c", 4},
		{"an endpoint less", source.Rows{Slices: []*mesh.Slice{slice("1", "a=10.0.0.1")}}, source.Keys{},
			"a 10.0.0.1 labels=app=db locality=r/z network=n1 machine=Kubernetes/east/m1 identity=sa-a\n" +
				"c 10.0.0.3 labels=istio-locality=q.y locality=q/y network=n1 machine=Kubernetes/east/m1 identity=sa-c", 1},
		{"everything goes but the slices", source.Rows{}, source.Keys{
			Workloads: []mesh.WorkloadKey{pod("a", "", "", nil).Key, pod("c", "", "", nil).Key},
			Machines:  []mesh.MachineKey{machine("m1", "").Key}, Namespaces: []mesh.NamespaceKey{namespace(nil).Key},
		}, "a 10.0.0.1\nc 10.0.0.3", 2},
	}
	for _, s := range steps {
		w.In.Apply(source.Batch{Set: s.set, Gone: s.gone})
		turn := w.Settle()
		if got := rows(w); got != s.want {
			t.Errorf("%s:\n%s\nwant\n%s", s.name, got, s.want)
		}
		for _, of := range turn.Tables {
			if of.Name == "endpoints" && of.Recomputed != s.runs {
				t.Errorf("%s: %d runs, want %d", s.name, of.Recomputed, s.runs)
			}
		}
	}
}

// ServiceEntries select the workloads of registries as they select WorkloadEntries (ServiceEntry.workloadSelector).
func TestServiceEntriesSelectWorkloadsOfRegistries(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: old, namespace: shop}
spec:
  hosts: [old.example.com]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: old}}
`)
	labels := map[string]string{"app": "old", "security.istio.io/tlsMode": "istio"}
	elsewhere := pod("c", "10.0.0.3", "", labels)
	elsewhere.Key.Namespace = "other"
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{
		pod("a", "10.0.0.1,fd00::1", "", labels),
		pod("b", "10.0.0.2", "", map[string]string{"app": "new"}),
		elsewhere,
		pod("d", "", "", labels),
	}}})
	w.Settle()
	if got := rows(w); !strings.HasPrefix(got, "workload/Kubernetes/east/a 10.0.0.1 ") || strings.Contains(got, "\n") {
		t.Errorf("endpoints:\n%s", got)
	}
	w.In.Apply(source.Batch{Gone: source.Keys{Workloads: []mesh.WorkloadKey{pod("a", "", "", nil).Key}}})
	w.Settle()
	if got := rows(w); got != "" {
		t.Errorf("a workload that is gone serves:\n%s", got)
	}
}

// step changes the registries' rows. want are the endpoints after it.
type step struct {
	name string
	set  source.Rows
	gone source.Keys
	want string
}

func runSteps(t *testing.T, steps []step) {
	t.Helper()
	w := compiletest.New(t)
	for _, s := range steps {
		w.In.Apply(source.Batch{Set: s.set, Gone: s.gone})
		w.Settle()
		if got := rows(w); got != s.want {
			t.Errorf("%s: the endpoints are\n%s\nwant\n%s", s.name, got, s.want)
		}
	}
}

// If a registry names no workload for an endpoint, as in an EndpointSlice that somebody wrote, it is the one workload of the service's
// namespace that has the address, whenever that comes or goes.
func TestSlicesFindWorkloadsByAddress(t *testing.T) {
	byHand := slice("1", "x=10.0.0.1")
	byHand.Endpoints[0].Workload = mesh.WorkloadKey{}
	elsewhere := pod("a", "10.0.0.1", "", nil)
	elsewhere.Key.Namespace = "other"
	const alone, found = "x 10.0.0.1", "x 10.0.0.1 labels=app=db machine=Kubernetes/east/m1 identity=sa-a"
	one, other := pod("a", "10.0.0.1", "m1", map[string]string{"app": "db"}), pod("b", "10.0.0.1", "", nil)
	gone := func(w *mesh.Workload) source.Keys { return source.Keys{Workloads: []mesh.WorkloadKey{w.Key}} }
	runSteps(t, []step{
		{"the slice first", source.Rows{Slices: []*mesh.Slice{byHand}}, source.Keys{}, alone},
		{"a pod of another namespace", source.Rows{Workloads: []*mesh.Workload{elsewhere}}, source.Keys{}, alone},
		{"a pod without an address", source.Rows{Workloads: []*mesh.Workload{pod("a", "", "", nil)}}, source.Keys{}, alone},
		{"the pod", source.Rows{Workloads: []*mesh.Workload{one}}, source.Keys{}, found},
		{"a second one on the machine's network", source.Rows{Workloads: []*mesh.Workload{other}}, source.Keys{}, alone},
		{"the second one goes", source.Rows{}, gone(other), found},
		{"the pod goes", source.Rows{}, gone(one), alone},
	})
}

// Slices of a Service that became an ExternalName may stay for good: they do not count while it is one.
func TestSlicesOfExternalNamesDoNotCount(t *testing.T) {
	left := slice("1", "a=10.0.0.1")
	elsewhere := slice(alias.Slice, "db.example=db.example")
	elsewhere.Endpoints[0].Workload = mesh.WorkloadKey{}
	runSteps(t, []step{
		{"a Service with endpoints", source.Rows{Slices: []*mesh.Slice{left}}, source.Keys{}, "a 10.0.0.1"},
		{"it becomes an ExternalName", source.Rows{Slices: []*mesh.Slice{elsewhere}}, source.Keys{}, "db.example db.example"},
		{"it is none any more", source.Rows{}, source.Keys{Slices: []mesh.SliceKey{elsewhere.Key}}, "a 10.0.0.1"},
	})
}
