package compile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/names"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/xdstype"
)

// inCluster is a Service of a cluster with one endpoint; "" has no address.
func inCluster(cluster, name, namespace, address string, created int64, ports ...mesh.Port) source.Rows {
	registry := mesh.RegistryOf(cluster)
	host := mesh.Host(name + "." + namespace + ".svc.cluster.local")
	s := &mesh.Service{
		Key:   mesh.ServiceKey{Host: host, Namespace: namespace, Registry: registry, Object: name},
		Ports: ports, Resolution: mesh.ClientSide, Created: created,
		Origin: mesh.ObjectRef{Kind: "Service", Namespace: namespace, Name: name, File: cluster},
	}
	if address != "" {
		s.Addresses = []string{address}
	}
	pod := &mesh.Workload{
		Key:       mesh.WorkloadKey{Registry: registry, Namespace: namespace, Name: name + "-1"},
		Addresses: podOf(cluster, name),
	}
	return source.Rows{
		Services: []*mesh.Service{s},
		Slices: []*mesh.Slice{{
			Key:       mesh.SliceKey{Service: s.Key, Name: name},
			Endpoints: []mesh.SliceEndpoint{{ID: pod.Addresses, Workload: pod.Key, Endpoint: mesh.Endpoint{Address: pod.Addresses}}},
		}},
		Workloads: []*mesh.Workload{pod},
	}
}

// podOf is the address of a Service's pod, which tells the cluster.
func podOf(cluster, name string) string {
	return map[string]string{"east": "10.3.0.", "west": "10.4.0.", "south": "10.5.0."}[cluster] + fmt.Sprint(1+int(name[0]))
}

var (
	webPort = mesh.Port{Name: "http", Number: 80, Protocol: mesh.HTTP}
	dbPort  = mesh.Port{Name: "tcp", Number: 3306, Protocol: mesh.TCP}
)

func (f fleet) apply(rows ...source.Rows) {
	for _, r := range rows {
		f.In.Apply(source.Batch{Set: r})
	}
}

// fleet is a world with proxies of several clusters.
type fleet struct {
	*compiletest.World
	t testing.TB
}

func newFleet(t testing.TB, own string, clusters ...string) fleet {
	f := fleet{compiletest.InCluster(t, own), t}
	for i, c := range clusters {
		for j, namespace := range []string{"shop", "bank"} {
			p := compiletest.Sidecar("p-"+c, namespace, fmt.Sprintf("10.9.%d.%d", i, j+1))
			p.Cluster, p.Names, p.AutoVIP = c, true, true
			f.Connect(p)
		}
	}
	return f
}

// seen returns the resources of a type that the proxies of a cluster in a namespace see, without those that are hidden from them.
func (f fleet) seen(typ xdstype.Type, cluster, namespace string) map[string][]byte {
	f.Settle()
	for id, all := range f.ByProxy(typ) {
		if strings.Contains(string(id), "~p-"+cluster+"."+namespace+"~") {
			out := map[string][]byte{}
			for name, e := range all {
				if e.Err == nil {
					out[name] = e.Body
				} else if !e.Hides {
					f.t.Errorf("%s is refused: %v", name, e.Err)
				}
			}
			return out
		}
	}
	f.t.Fatalf("no proxy of %s in %s", cluster, namespace)
	return nil
}

// addresses are what a cluster's proxies of namespace shop take web.shop and db.shop for: names, domains and listeners.
func (f fleet) addresses(cluster string) string {
	f.t.Helper()
	var out []string
	for name, body := range f.seen(xdstype.NameTables, cluster, "shop") {
		shown, err := names.Show(body)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, s := range shown {
			out = append(out, fmt.Sprint(strings.TrimSuffix(name, ".svc.cluster.local"), "=", s.Addresses))
		}
	}
	for name, body := range f.seen(xdstype.VirtualHosts, cluster, "shop") {
		var host routev3.VirtualHost
		if err := proto.Unmarshal(body, &host); err != nil {
			f.t.Fatal(err)
		}
		for _, d := range host.Domains {
			if d[0] >= '0' && d[0] <= '9' {
				out = append(out, strings.TrimSuffix(strings.TrimPrefix(name, "80/"), ".svc.cluster.local:80")+"@"+d)
			}
		}
	}
	for name := range f.seen(xdstype.Listeners, cluster, "shop") {
		if strings.HasSuffix(name, "_3306") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A proxy knows a service by its addresses in the proxy's cluster, or else by those of the cluster with the highest precedence.
func TestAddressesOfTheOwnCluster(t *testing.T) {
	f := newFleet(t, "east", "east", "west", "south", "")
	f.apply(
		inCluster("east", "web", "shop", "10.96.0.1", 9, webPort), inCluster("east", "db", "shop", "10.96.0.2", 9, dbPort),
		inCluster("west", "web", "shop", "10.97.0.1", 5, webPort), inCluster("west", "db", "shop", "10.97.0.2", 5, dbPort),
	)
	want := func(step string, by map[string]string) {
		t.Helper()
		for cluster, want := range by {
			if got := f.addresses(cluster); got != want {
				t.Errorf("%s: proxies of %q have\n%s, want\n%s", step, cluster, got, want)
			}
		}
	}
	const east = "10.96.0.2_3306 db.shop=[10.96.0.2] web.shop=[10.96.0.1] web.shop@10.96.0.1"
	const west = "10.97.0.2_3306 db.shop=[10.97.0.2] web.shop=[10.97.0.1] web.shop@10.97.0.1"
	want("two clusters", map[string]string{"east": east, "west": west, "south": east, "": east})
	f.apply(inCluster("west", "db", "shop", "10.97.0.3", 5, dbPort))
	want("one is another", map[string]string{"east": east, "west": strings.ReplaceAll(west, "97.0.2", "97.0.3"), "south": east})

	// An address of one cluster is another service's in the other: each cluster's proxies reach their own.
	f.apply(inCluster("west", "other", "shop", "10.96.0.2", 1, dbPort), inCluster("east", "some", "shop", "10.97.0.1", 1, webPort))
	if got := f.addresses("west"); !strings.Contains(got, "web.shop@10.97.0.1") || strings.Contains(got, "some.shop@") {
		t.Errorf("west's address leads west's proxies elsewhere: %s", got)
	}
	listener := func(cluster, name string) string { return string(f.seen(xdstype.Listeners, cluster, "shop")[name]) }
	if east := listener("east", "10.96.0.2_3306"); !strings.Contains(east, "db.shop") || strings.Contains(east, "other.shop") {
		t.Errorf("east's address leads east's proxies elsewhere: %q", east)
	}
	if west := listener("west", "10.96.0.2_3306"); !strings.Contains(west, "other.shop") {
		t.Errorf("west's address leads west's proxies elsewhere: %q", west)
	}
	for _, p := range f.Problems() {
		if p.Code == code.AddressTaken || p.Code == code.PortTaken {
			t.Errorf("clusters whose ranges overlap are told %s", p)
		}
	}
}

// While all clusters say one thing, or there is one, no row is there for clusters.
func TestOneClusterCostsNothing(t *testing.T) {
	rows := func(cluster string) map[string]int {
		f := newFleet(t, "east")
		p := compiletest.Sidecar("p", "shop", "10.9.0.1")
		p.Cluster, p.Names = cluster, true
		f.Connect(p)
		for i := range 20 {
			name := string(rune('a' + i))
			f.apply(inCluster("east", name, "shop", fmt.Sprintf("10.96.0.%d", i+1), 1, webPort, dbPort))
		}
		f.apply(inCluster("east", "kube-dns", "kube-system", "10.96.0.100", 1, dbPort))
		f.Settle()
		out := map[string]int{}
		for _, info := range f.Store.Tables() {
			out[info.Name] = info.Rows
		}
		return out
	}
	if diff := cmp.Diff(rows(""), rows("east")); diff != "" {
		t.Errorf("-without +with a cluster:\n%s", diff)
	}
}

// loads are the endpoints of a cluster that proxies have.
func (f fleet) loads(cluster, name string) string {
	f.t.Helper()
	var m endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(f.seen(xdstype.Loads, cluster, "shop")[name], &m); err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, l := range m.Endpoints {
		for _, e := range l.LbEndpoints {
			out = append(out, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// If a service is cluster-local, its endpoints are those of the proxy's cluster, and the settings may change this at any time.
func TestClusterLocal(t *testing.T) {
	f := newFleet(t, "east", "east", "west", "south", "")
	f.apply(
		inCluster("east", "dns", "kube-system", "10.96.0.1", 1, dbPort), inCluster("west", "dns", "kube-system", "10.97.0.1", 2, dbPort),
		inCluster("east", "web", "shop", "10.96.0.2", 1, webPort), inCluster("west", "web", "shop", "10.97.0.2", 2, webPort),
		inCluster("west", "alone", "shop", "10.97.0.3", 2, webPort), inCluster("south", "some", "shop", "10.98.0.1", 2, webPort),
	)
	of := func(name, namespace string, port int) string {
		return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port, name, namespace)
	}
	want := func(step, cluster string, name string, clusters ...string) {
		t.Helper()
		namespace, port := "shop", 80
		if name == "dns" {
			namespace, port = "kube-system", 3306
		}
		var want []string
		for _, c := range clusters {
			want = append(want, podOf(c, name))
		}
		if got := f.loads(cluster, of(name, namespace, port)); got != strings.Join(want, " ") {
			t.Errorf("%s: %s leads proxies of %q to %q, want %q", step, name, cluster, got, want)
		}
	}
	settings := func(text string) {
		f.Apply("kind: MeshConfig\nspec: {serviceSettings: [" + text + "]}\n")
	}
	for _, c := range []string{"east", "west"} {
		want("default", c, "dns", c)
		want("default", c, "web", "east", "west")
		want("default", c, "alone", "west")
	}
	want("default", "south", "dns")
	want("default", "", "dns", "east", "west")
	settings("{settings: {clusterLocal: true}, hosts: ['*.shop.svc.cluster.local']}")
	for _, c := range []string{"east", "west"} {
		want("a wildcard", c, "dns", c)
		want("a wildcard", c, "web", c)
	}
	want("a wildcard", "east", "alone")
	want("a wildcard", "west", "alone", "west")
	settings("{settings: {clusterLocal: true}, hosts: ['*.shop.svc.cluster.local']}, {hosts: [web.shop.svc.cluster.local]}," +
		" {hosts: ['*.kube-system.svc.cluster.local']}")
	for _, c := range []string{"east", "west"} {
		want("the more exact wins", c, "dns", "east", "west")
		want("the more exact wins", c, "web", "east", "west")
	}
	want("the more exact wins", "east", "alone")
	settings("")
	want("none any more", "east", "alone", "west")
	want("none any more", "west", "dns", "west")
}

// A port that clusters name differently is a problem; what the first says counts.
func TestClustersThatDiffer(t *testing.T) {
	f := newFleet(t, "east", "east", "west")
	west := webPort
	west.Name, west.Protocol = "tcp", mesh.TCP
	f.apply(inCluster("east", "web", "shop", "10.96.0.1", 9, webPort), inCluster("west", "web", "shop", "10.97.0.1", 1, west))
	f.Settle()
	found := find(f.Problems(), code.ClustersDiffer)
	if len(found) != 1 || found[0].Object.File != "west" || !strings.Contains(found[0].Message, "in cluster west") {
		t.Errorf("told are %v", f.Problems())
	}
	for _, c := range []string{"east", "west"} {
		if f.seen(xdstype.VirtualHosts, c, "shop")["80/web.shop.svc.cluster.local:80"] == nil {
			t.Errorf("proxies of %s do not have what east says", c)
		}
	}
	f.apply(inCluster("west", "web", "shop", "10.97.0.1", 1, webPort))
	if f.Settle(); len(find(f.Problems(), code.ClustersDiffer)) > 0 {
		t.Error("it is mended, and still told")
	}
}

// Whatever services clusters have: what proxies of a cluster see is what they would if that cluster's went first; and it is
// the same after any history as at once.
func TestClustersAtRandom(t *testing.T) {
	clusters := []string{"east", "west"}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		f := newFleet(t, "east", clusters...)
		f.Apply(rulesOfClusters)
		now := map[string]source.Rows{}
		for step := range 12 {
			cluster, name := clusters[random.IntN(2)], string(rune('a'+random.IntN(4)))
			key := cluster + "/" + name
			if old, has := now[key]; has && random.IntN(3) == 0 {
				f.In.Apply(source.Batch{Gone: source.Keys{
					Services: []mesh.ServiceKey{old.Services[0].Key}, Slices: []mesh.SliceKey{old.Slices[0].Key},
					Workloads: []mesh.WorkloadKey{old.Workloads[0].Key},
				}})
				delete(now, key)
			} else {
				ports := [][]mesh.Port{{webPort}, {dbPort}, {webPort, dbPort}}[int(name[0])%3]
				rows := inCluster(cluster, name, "shop", fmt.Sprintf("10.96.0.%d", 1+random.IntN(5)), int64(name[0]), ports...)
				if name == "b" {
					rows.Services[0].ExportTo = []string{"."}
				}
				now[key] = rows
				f.apply(rows)
			}
			if random.IntN(2) == 0 {
				f.Settle()
			}
			if step%3 < 2 {
				continue
			}
			compare(t, seed, f, "east", now, clusters)
			compare(t, seed, f, "west", now, clusters[1:])
		}
		if t.Failed() {
			return
		}
	}
}

// compare compares a world with one that is made at once, with a control plane of a cluster.
func compare(t *testing.T, seed uint64, f fleet, own string, now map[string]source.Rows, clusters []string) {
	t.Helper()
	fresh := newFleet(t, own, "east", "west")
	fresh.Apply(rulesOfClusters)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		fresh.apply(now[key])
	}
	for _, c := range clusters {
		for _, namespace := range []string{"shop", "bank"} {
			for _, typ := range []xdstype.Type{xdstype.NameTables, xdstype.VirtualHosts, xdstype.Routes, xdstype.Listeners, xdstype.Loads} {
				if diff := cmp.Diff(fresh.plain(typ, c, namespace), f.plain(typ, c, namespace)); diff != "" {
					t.Errorf("seed %d: proxies of %s in %s, %v: -at once, of %s +step by step:\n%s", seed, c, namespace, typ, own, diff)
				}
			}
		}
	}
}

// plain returns the resources that proxies see as text, without the name of the registry with the highest precedence.
func (f fleet) plain(typ xdstype.Type, cluster, namespace string) map[string]string {
	out := map[string]string{}
	for name, body := range f.seen(typ, cluster, namespace) {
		if out[name] = string(body); typ == xdstype.NameTables {
			shown, err := names.Show(body)
			out[name] = fmt.Sprint(shown, err)
		}
	}
	return out
}

// rulesOfClusters have routes for proxies with some labels, and a namespace's own view.
const rulesOfClusters = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: shop}
spec:
  hosts: [a.shop.svc.cluster.local]
  http: [{match: [{sourceLabels: {app: p}}], route: [{destination: {host: b.shop.svc.cluster.local}}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: bank}
spec:
  hosts: [own.example.com]
  addresses: [10.96.0.3]
  exportTo: ["."]
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 3306, name: tcp, protocol: TCP}]
  resolution: STATIC
`
