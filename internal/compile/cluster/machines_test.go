package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/xdstype"
)

// shop returns a registry's service, which change may modify, with an endpoint on each of some machines.
func shop(change func(*mesh.Service), machines ...string) source.Rows {
	s := &mesh.Service{
		Key:        mesh.ServiceKey{Host: "web.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/east", Object: "web"},
		Ports:      []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
		Resolution: mesh.ClientSide,
	}
	change(s)
	slice := &mesh.Slice{Key: mesh.SliceKey{Service: s.Key, Name: "web-1"}}
	for i, m := range machines {
		address := fmt.Sprintf("10.1.0.%d", i+1)
		slice.Endpoints = append(slice.Endpoints, mesh.SliceEndpoint{ID: address, Endpoint: mesh.Endpoint{
			Address: address, Machine: on("east", m), Locality: mesh.Locality{Region: "r", Zone: "zone of " + m},
			Ports: "http=8080", ListsAll: true,
		}})
	}
	return source.Rows{Services: []*mesh.Service{s}, Slices: []*mesh.Slice{slice}}
}

// on refers to a machine of a cluster.
func on(cluster, name string) mesh.MachineRef {
	return mesh.MachineKey{Registry: "Kubernetes/" + cluster, Name: name}.Ref()
}

// client returns a proxy and its workload, which runs on a machine.
func client(name, machine string) (mesh.Proxy, *mesh.Workload) {
	p := compiletest.Sidecar(name, "shop", "10.2.0.1")
	p.Name, p.Cluster, p.Locality = name, "east", mesh.Locality{Region: "r", Zone: "zone of " + machine}
	key := mesh.WorkloadKey{Registry: "Kubernetes/east", Namespace: "shop", Name: name}
	return p, &mesh.Workload{Key: key, Addresses: "10.2.0.1", Machine: on("east", machine)}
}

// used says, of each part of a layer that has the service's load assignment, which addresses are used first, and which after these.
func used(t *testing.T, w *compiletest.World) (out []string) {
	t.Helper()
	w.Settle()
	for k, e := range w.Published(xdstype.Loads) {
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(e.Body, load); err != nil {
			t.Fatal(err)
		}
		line := k.Shelf.Part + ":"
		for _, l := range load.Endpoints {
			for _, e := range l.LbEndpoints {
				line += fmt.Sprintf(" %d %s", l.Priority, e.GetEndpoint().Address.GetSocketAddress().Address)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestOwnMachine: if a service is for each machine alone, its clients use only the endpoints of their own machine.
func TestOwnMachine(t *testing.T) {
	w := compiletest.New(t)
	one, pod := client("one", "m1")
	w.Connect(one)
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{pod}}})
	own := func(s *mesh.Service) { s.OwnMachine = true }
	all := func(*mesh.Service) {}
	for _, c := range []struct {
		rows source.Rows
		want string
	}{
		{shop(all, "m1", "m2"), ": 0 10.1.0.1 0 10.1.0.2"},
		{shop(own, "m1", "m2"), ": 0 10.1.0.1 0 10.1.0.2\non Kubernetes/east/m1: 0 10.1.0.1"},
		{shop(own, "m2"), ": 0 10.1.0.1\non Kubernetes/east/m1:"},
		{shop(all, "m1", "m2"), ": 0 10.1.0.1 0 10.1.0.2"},
	} {
		w.In.Apply(source.Batch{Set: c.rows})
		if got := strings.Join(used(t, w), "\n"); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}

// twin is the client, the service and its endpoints of another cluster, where machines have the same names.
func twin(change func(*mesh.Service), machines ...string) (mesh.Proxy, source.Rows) {
	p, pod := client("two", machines[0])
	p.IP, p.Cluster, p.Locality = "10.2.0.2", "west", mesh.Locality{Region: "far", Zone: "z"}
	pod.Key.Registry, pod.Addresses, pod.Machine = "Kubernetes/west", "10.2.0.2", on("west", machines[0])
	rows := shop(change, machines...)
	rows.Services[0].Key.Registry = "Kubernetes/west"
	rows.Slices[0].Key.Service = rows.Services[0].Key
	for i := range rows.Slices[0].Endpoints {
		e := &rows.Slices[0].Endpoints[i]
		e.ID = fmt.Sprintf("10.1.9.%d", i+1)
		e.Address, e.Locality, e.Machine = e.ID, p.Locality, on("west", machines[i])
	}
	rows.Workloads = []*mesh.Workload{pod}
	return p, rows
}

// TestMachinesOfTwoClusters: machines with the same name in two clusters are two machines. This holds for services that use only the own
// machine, for services that prefer it, and for rules that say so. A value that a rule gives is the name, in any cluster.
func TestMachinesOfTwoClusters(t *testing.T) {
	w := compiletest.New(t)
	one, pod := client("one", "m1")
	w.Connect(one)
	set := func(change func(*mesh.Service)) {
		t.Helper()
		two, there := twin(change, "m1", "m2")
		w.Connect(two)
		w.In.Apply(source.Batch{Set: shop(change, "m1", "m2")})
		w.In.Apply(source.Batch{Set: there})
		w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{pod}}})
	}
	expect := func(what string, wants ...string) {
		t.Helper()
		if got, want := strings.Join(used(t, w), "\n"), strings.Join(wants, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	const all = ": 0 10.1.9.1 0 10.1.9.2 0 10.1.0.1 0 10.1.0.2"
	set(func(s *mesh.Service) { s.OwnMachine = true })
	expect("own machines", all, "on Kubernetes/east/m1: 0 10.1.0.1", "on Kubernetes/west/m1: 0 10.1.9.1")

	set(func(s *mesh.Service) { s.Nearest = []string{"kubernetes.io/hostname"} })
	ranked := []string{
		all,
		`ranked by "kubernetes.io/hostname=Kubernetes/east/m1" from r/zone of m1/: 1 10.1.9.1 1 10.1.9.2 0 10.1.0.1 1 10.1.0.2`,
		`ranked by "kubernetes.io/hostname=Kubernetes/west/m1" from far/z/: 0 10.1.9.1 1 10.1.9.2 1 10.1.0.1 1 10.1.0.2`,
	}
	expect("near machines", ranked...)

	set(func(*mesh.Service) {})
	rule := func(priority string) {
		w.Apply(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 1}
    loadBalancer: {localityLbSetting: {failoverPriority: [` + priority + `]}}
`)
	}
	rule("kubernetes.io/hostname")
	expect("a rule", ranked...)
	rule("kubernetes.io/hostname=m1")
	expect("a rule with a name", all, `ranked by "" from far/z/: 0 10.1.9.1 1 10.1.9.2 0 10.1.0.1 1 10.1.0.2`,
		`ranked by "" from r/zone of m1/: 0 10.1.9.1 1 10.1.9.2 0 10.1.0.1 1 10.1.0.2`)
}

// TestSelectedOnMachines: pods of two clusters that a ServiceEntry selects are on the machines of their own.
func TestSelectedOnMachines(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop}
spec:
  hosts: [db.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  location: MESH_INTERNAL
  workloadSelector: {labels: {app: db}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: db, namespace: shop}
spec:
  host: db.example.com
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 1}
    loadBalancer: {localityLbSetting: {failoverPriority: [kubernetes.io/hostname]}}
`)
	one, here := client("one", "m1")
	two, there := twin(func(*mesh.Service) {}, "m1")
	w.Connect(one)
	w.Connect(two)
	workloads := []*mesh.Workload{here, there.Workloads[0]}
	for i, of := range workloads {
		db := *of
		db.Key.Name, db.Addresses, db.Labels = "db", fmt.Sprintf("10.5.0.%d", i+1), "app=db"
		workloads = append(workloads, &db)
	}
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: workloads}})
	got, want := used(t, w), []string{ // nothing is in the place that the proxies claim
		": 0 10.5.0.1 0 10.5.0.2",
		`ranked by "kubernetes.io/hostname=Kubernetes/east/m1" from //: 0 10.5.0.1 1 10.5.0.2`,
		`ranked by "kubernetes.io/hostname=Kubernetes/west/m1" from //: 0 10.5.0.2 1 10.5.0.1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNearMachine: clients prefer the endpoints of their own machine, then those of its zone, then others. They also do so if a rule asks
// for machines.
func TestNearMachine(t *testing.T) {
	w := compiletest.New(t)
	one, pod := client("one", "m1")
	two, other := client("two", "m2")
	two.IP, other.Addresses = "10.2.0.2", "10.2.0.2"
	w.Connect(one)
	w.Connect(two)
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{pod, other}}})
	near := func(s *mesh.Service) {
		s.Nearest = []string{
			"topology.istio.io/network", "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname",
		}
	}
	const own = ": 0 10.1.0.1 0 10.1.0.3 0 10.1.0.2" // in order of locality
	rows := shop(near, "m1", "m2", "m1")
	w.In.Apply(source.Batch{Set: rows})
	want := strings.Join([]string{
		own,
		`ranked by "kubernetes.io/hostname=Kubernetes/east/m1" from r/zone of m1/: 0 10.1.0.1 0 10.1.0.3 1 10.1.0.2`,
		`ranked by "kubernetes.io/hostname=Kubernetes/east/m2" from r/zone of m2/: 1 10.1.0.1 1 10.1.0.3 0 10.1.0.2`,
	}, "\n")
	if got := strings.Join(used(t, w), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	rows = shop(near, "m1", "m2", "m3")
	rows.Slices[0].Endpoints[2].Locality.Zone = "zone of m1"
	w.In.Apply(source.Batch{Set: rows})
	if got := strings.Join(used(t, w), "\n"); !strings.Contains(got, "from r/zone of m1/: 0 10.1.0.1 1 10.1.0.3 2 10.1.0.2") {
		t.Errorf("the zone does not come after the machine: got\n%s", got)
	}
	w.In.Apply(source.Batch{Set: shop(func(*mesh.Service) {}, "m1", "m2", "m1")})
	if got := strings.Join(used(t, w), "\n"); got != own {
		t.Errorf("nobody asks for it any more: got\n%s", got)
	}
	w.Apply(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 1}
    loadBalancer: {localityLbSetting: {failoverPriority: [kubernetes.io/hostname]}}
`)
	if got := strings.Join(used(t, w), "\n"); got != want {
		t.Errorf("by a rule: got\n%s\nwant\n%s", got, want)
	}
}

// TestNearest: a service says how its clients choose, whether or not endpoints that fail are detected; a rule goes before it.
func TestNearest(t *testing.T) {
	w := compiletest.New(t)
	one, _ := client("one", "m1")
	w.Connect(one)
	w.In.Apply(source.Batch{Set: shop(func(s *mesh.Service) {
		s.Nearest = []string{"topology.istio.io/network", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"}
	}, "m1", "m2")})
	want := ": 0 10.1.0.1 0 10.1.0.2\nfrom r/zone of m1/: 0 10.1.0.1 1 10.1.0.2"
	if got := strings.Join(used(t, w), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.Apply(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web, trafficPolicy: {loadBalancer: {localityLbSetting: {enabled: false}}}}
`)
	if got := strings.Join(used(t, w), "\n"); strings.Contains(got, " 1 ") {
		t.Errorf("a rule switches it off, and still: %s", got)
	}
}
