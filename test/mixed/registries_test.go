package mixed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/rig"
)

// instance is one of the service's instances, as its registry knows it.
type instance struct {
	name, ip string
	version  string
}

// registry holds instances of the service.
type registry interface {
	// source is what the control plane calls it.
	source() string
	// zone is that of its instances, below the region r1.
	zone() string
	// put registers an instance, drop takes it back.
	put(t testing.TB, i instance)
	drop(t testing.TB, i instance)
	// kill takes the registry away from the control plane; empty has it back with nothing in it.
	kill(t testing.TB)
	empty(t testing.TB)
	// kept is a text on the control plane's pages once it has read the empty registry and keeps the instances from before. If it is empty,
	// the control plane removes the instances from the proxy.
	kept() string
}

// backing is the port that all instances listen on, and the service has port 80 for.
const backing = 8080

// consul is a Consul server; the instances register with its own agent.
type consul struct{ *consulserver.Server }

func (consul) source() string { return "Consul/dc1" }
func (consul) zone() string   { return "z-consul" }
func (consul) kept() string   { return "Consul's state is older than it was" }

func (c consul) put(t testing.TB, i instance) {
	t.Helper()
	if err := c.Client(t).Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: i.name, Name: "orders", Address: i.ip, Port: backing,
		Meta: map[string]string{"version": i.version, "region": "r1", "zone": c.zone()},
	}); err != nil {
		t.Fatal(err)
	}
}

func (c consul) drop(t testing.TB, i instance) {
	t.Helper()
	if err := c.Client(t).Agent().ServiceDeregister(i.name); err != nil {
		t.Fatal(err)
	}
}

func (c consul) kill(testing.TB) { c.Kill() }

func (c consul) empty(t testing.TB) { c.Restart(t, true) }

// eureka is a Eureka server.
type eureka struct{ *eurekaserver.Server }

func (eureka) source() string { return "Eureka/main" }
func (eureka) zone() string   { return "z-eureka" }
func (eureka) kept() string   { return "instances are missing from the registry's list" }

func (e eureka) put(t testing.TB, i instance) {
	t.Helper()
	e.Register(t, eurekaserver.Instance{
		App: "ORDERS", ID: i.name, Address: i.ip, Port: backing,
		Metadata: map[string]string{"version": i.version, "region": "r1", "zone": e.zone()},
	})
}

func (e eureka) drop(t testing.TB, i instance) {
	t.Helper()
	e.Cancel(t, "ORDERS", i.name)
}

func (e eureka) kill(testing.TB) { e.Kill() }

func (e eureka) empty(t testing.TB) { e.Run(t) }

// kubernetes is a cluster, which the control plane reaches by a gate.
type kubernetes struct {
	*cluster.Cluster
	gate *cluster.Gate
}

func (*kubernetes) source() string { return "Kubernetes/east" }
func (*kubernetes) zone() string   { return "z-kubernetes" }

// An API server's list is always complete.
func (*kubernetes) kept() string { return "" }

const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z-kubernetes}}
`

const service = `
apiVersion: v1
kind: Service
metadata: {name: orders, namespace: shop}
spec: {selector: {app: orders}, clusterIP: 10.250.0.80, ports: [{name: http, port: 80, targetPort: 8080}]}
`

func pod(t testing.TB, i instance) string {
	t.Helper()
	return rig.Fill(t, "pod", `
apiVersion: v1
kind: Pod
metadata: {name: ${name}, namespace: shop, labels: {app: orders, version: ${version}}}
spec: {nodeName: n1, containers: [{name: orders, image: orders}]}
status: {phase: Running, podIP: ${ip}, podIPs: [{ip: ${ip}}], conditions: [{type: Ready, status: "True"}]}
`, rig.Pairs("name", i.name, "version", i.version, "ip", i.ip))
}

// put has the Service with the first pod, as a deployment has.
func (k *kubernetes) put(t testing.TB, i instance) {
	t.Helper()
	k.Apply(t, service+"---"+pod(t, i))
}

func (k *kubernetes) drop(t testing.TB, i instance) {
	t.Helper()
	k.Delete(t, pod(t, i))
}

func (k *kubernetes) kill(testing.TB) {
	k.gate.Close()
	k.StopServer()
}

// empty has an API server back that knows nothing of the shop.
func (k *kubernetes) empty(t testing.TB) {
	t.Helper()
	k.StartServer(t)
	const pods = "/api/v1/namespaces/shop/pods"
	if _, err := k.Do(t.Context(), "DELETE", pods+"?gracePeriodSeconds=0", "", nil); err != nil {
		t.Fatal(err)
	}
	k.Delete(t, service)
	rig.Eventually(t, func() error {
		o, err := k.Do(t.Context(), "GET", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", "", nil)
		if items, _ := o["items"].([]any); err == nil && len(items) > 0 {
			err = fmt.Errorf("there are still %d EndpointSlices", len(items))
		}
		return err
	})
	k.gate.Open(t)
}

// files is a folder with a ServiceEntry.
type files struct {
	dir  string
	here []instance
}

func (*files) source() string { return "ServiceEntry" }
func (*files) zone() string   { return "z-files" }
func (*files) kept() string   { return "another folder is in its place, and it is empty" }

func (f *files) write(t testing.TB) {
	t.Helper()
	var endpoints strings.Builder
	for _, i := range f.here {
		fmt.Fprintf(&endpoints, "  - {address: %s, locality: r1/%s, labels: {version: %s}}\n", i.ip, f.zone(), i.version)
	}
	rig.Write(t, f.dir, "orders.yaml", fmt.Appendf(nil, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: orders, namespace: shop}
spec:
  hosts: [%s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}]
  endpoints:
%s`, host, backing, &endpoints))
}

func (f *files) put(t testing.TB, i instance) {
	t.Helper()
	f.here = append(f.here, i)
	f.write(t)
}

func (f *files) drop(t testing.TB, i instance) {
	t.Helper()
	f.here = slices.DeleteFunc(f.here, func(one instance) bool { return one.name == i.name })
	f.write(t)
}

// kill takes the folder away, as a volume that is not mounted any more.
func (f *files) kill(t testing.TB) {
	t.Helper()
	if err := os.Rename(f.dir, f.dir+".away"); err != nil {
		t.Fatal(err)
	}
}

// empty brings the folder back without its files, as before a volume is mounted, or filled.
func (f *files) empty(t testing.TB) {
	t.Helper()
	f.here = nil
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(f.dir + "/*"); len(left) > 0 {
		t.Fatalf("the folder is not empty: %v", left)
	}
}
