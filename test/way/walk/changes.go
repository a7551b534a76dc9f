package walk

import (
	"fmt"
	"os"
	"path/filepath"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/ads"
)

// written is the content of the folder of rules besides the VirtualService: the workload beside the proxy.
const written = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop.svc.cluster.local]
  ports: [{number: 80, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 10.0.0.9, labels: {app: web}, serviceAccount: web}]
`

const route = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  http:
  - timeout: %s
    route: [{destination: {host: reviews.shop.svc.cluster.local}}]
`

// writeRoute edits the VirtualService like an editor: a new file takes the place of the old one.
func (w *world) writeRoute(timeout string) error {
	file := filepath.Join(w.rules, "route.yaml")
	if err := os.WriteFile(file+".new", fmt.Appendf(nil, route, timeout), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// inventory is the content of the source of code: one service with one endpoint, a workload.
func inventory(address string) (out source.Rows) {
	const registry, namespace = "inventory", "shop"
	service := mesh.ServiceKey{Host: "reviews.shop.svc.cluster.local", Namespace: namespace, Registry: registry}
	workload := mesh.WorkloadKey{Registry: registry, Namespace: namespace, Name: "reviews-1"}
	out.Services = []*mesh.Service{{
		Key: service, ExportTo: []string{"*"}, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
	}}
	out.Workloads = []*mesh.Workload{{
		Key: workload, Addresses: "10.0.1.1", Labels: mesh.MakeLabels(map[string]string{"app": "reviews"}), ServiceAccount: "reviews",
	}}
	out.Slices = []*mesh.Slice{{
		Key:       mesh.SliceKey{Service: service, Name: "reviews-1"},
		Endpoints: []mesh.SliceEndpoint{{ID: "reviews-1", Workload: workload, Endpoint: mesh.Endpoint{Address: address}}},
	}}
	return out
}

// change is a change that is measured.
type change struct {
	name   string // of its folder
	before step   // takes it back, so that it can be made again
	make   step
	made   bool
}

// changes lists the changes to measure.
func (w *world) changes() []*change {
	endpoint := func(address string) step {
		return func() (string, error) {
			w.registry.apply(source.Rows{Slices: inventory(address).Slices})
			return ads.EndpointType, nil
		}
	}
	timeout := func(t string) step {
		return func() (string, error) { return ads.VirtualHostType, w.writeRoute(t) }
	}
	policy := func(path string) step {
		return func() (string, error) {
			w.cluster.set(path)
			return ads.ListenerType, nil
		}
	}
	instances := func(addresses ...string) step {
		return func() (string, error) {
			w.consul.set(addresses...)
			return ads.EndpointType, nil
		}
	}
	return []*change{
		{name: "endpoint", before: endpoint("10.0.1.1"), make: endpoint("10.0.1.2")},
		{name: "route", before: timeout("1s"), make: timeout("2s")},
		{name: "policy", before: policy("/a"), make: policy("/b")},
		{name: "consul", before: instances("10.0.2.1"), make: instances("10.0.2.1", "10.0.2.2")},
	}
}
