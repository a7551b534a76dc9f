package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shape is the size of a mesh under measurement.
type shape struct {
	Services   int `json:"services"`
	Endpoints  int `json:"endpoints"`
	Clients    int `json:"clients"`
	Namespaces int `json:"namespaces"`
	// Sidecars is what the Sidecar object of each namespace says, a key of sidecars; empty: there is none.
	Sidecars string `json:"sidecars,omitempty"`
}

// sidecars are the specs of Sidecar objects that users of large meshes have, one a namespace.
var sidecars = map[string]string{
	"policy":  `{outboundTrafficPolicy: {mode: ALLOW_ANY}}`,
	"refuse":  `{outboundTrafficPolicy: {mode: REGISTRY_ONLY}}`,
	"all":     `{egress: [{hosts: ["*/*"]}]}`,
	"most":    `{egress: [{hosts: ["*/*", "~private/*"]}]}`,
	"own":     `{egress: [{hosts: ["./*", "istio-system/*"]}]}`,
	"ingress": `{ingress: [{port: {number: 9080, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:8080"}]}`,
}

func (s shape) String() string {
	name := fmt.Sprintf("%d × %d × %d", s.Services, s.Endpoints, s.Clients)
	if s.Namespaces > 1 {
		name += fmt.Sprintf(" in %d namespaces", s.Namespaces)
	}
	if s.Sidecars != "" {
		name += ", a Sidecar each: " + sidecars[s.Sidecars]
	}
	return name
}

// rules writes the mesh's objects, one a file: a service each, and for every fifth a VirtualService and a
// DestinationRule with two subsets, all on port 80. One more service selects 252 WorkloadEntries, so that the files
// contain what a mesh of machines would have.
type rules struct {
	dir   string
	shape shape
}

const workloads = 252

func (r rules) namespace(i int) string {
	if r.shape.Namespaces <= 1 {
		return "default"
	}
	return fmt.Sprintf("ns-%d", i%r.shape.Namespaces)
}

func (r rules) host(i int) string {
	return fmt.Sprintf("svc-%d.%s.svc.cluster.local", i, r.namespace(i))
}

// sees reports whether a client sees a service: through a Sidecar that imports no more than its own namespace, only that namespace's.
func (r rules) sees(client, service int) bool {
	return r.shape.Sidecars != "own" || r.namespace(client) == r.namespace(service)
}

// hosts is how many services a client sees.
func (r rules) hosts(client int) (n int) {
	for i := range r.shape.Services {
		if r.sees(client, i) {
			n++
		}
	}
	return n
}

// service is the text of one ServiceEntry; its last endpoint's address ends in last, so that a change is one address.
func (r rules) service(i, last int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: svc-%d
  namespace: %s
spec:
  hosts: [%s]
  addresses: [10.%d.%d.%d]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP}
  endpoints:
`, i, r.namespace(i), r.host(i), 64+i>>16, i>>8&255, i&255)
	for e := range r.shape.Endpoints {
		n := i*r.shape.Endpoints + e
		end := n & 255
		if e == r.shape.Endpoints-1 && last > 0 {
			end = last
		}
		fmt.Fprintf(&b, "  - {address: 10.%d.%d.%d, ports: {http: 8080}, labels: {app: svc-%d, version: v%d}}\n", 128+n>>16,
			n>>8&255, end, i, 1+e%2)
	}
	return b.String()
}

func (r rules) virtualService(i, weight int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: svc-%[1]d
  namespace: %[2]s
spec:
  hosts: [%[3]s]
  http:
  - match:
    - headers: {x-version: {exact: v2}}
    route:
    - destination: {host: %[3]s, subset: v2}
  - route:
    - destination: {host: %[3]s, subset: v1}
      weight: %[4]d
    - destination: {host: %[3]s, subset: v2}
      weight: %[5]d
`, i, r.namespace(i), r.host(i), weight, 100-weight)
}

func (r rules) destinationRule(i, connections int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: svc-%d
  namespace: %s
spec:
  host: %s
  trafficPolicy:
    connectionPool: {tcp: {maxConnections: %d}}
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
`, i, r.namespace(i), r.host(i), connections)
}

// sidecar is the text of the Sidecar object of a namespace's workloads.
func (r rules) sidecar(i int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: %s}
spec: %s
`, r.namespace(i), sidecars[r.shape.Sidecars])
}

func machines() (service string, entries []string) {
	service = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: machines, namespace: machines}
spec:
  hosts: [machines.machines.svc.cluster.local]
  addresses: [10.63.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP}
  workloadSelector: {labels: {app: machines}}
`
	for i := range workloads {
		entries = append(entries, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: machine-%d, namespace: machines}
spec:
  address: 10.62.0.%d
  labels: {app: machines}
`, i, 1+i))
	}
	return service, entries
}

func (r rules) path(kind string, i int) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s-%d.yaml", kind, i))
}

// write lays out the whole mesh and returns how many objects it has.
func (r rules) write() (int, error) {
	n := 0
	put := func(path, text string) error {
		n++
		return os.WriteFile(path, []byte(text), 0o644)
	}
	for i := range r.shape.Services {
		if err := put(r.path("service", i), r.service(i, 0)); err != nil {
			return n, err
		}
		if i%5 != 0 {
			continue
		}
		if err := put(r.path("route", i), r.virtualService(i, 90)); err != nil {
			return n, err
		}
		if err := put(r.path("rule", i), r.destinationRule(i, 1000)); err != nil {
			return n, err
		}
	}
	for i := 0; r.shape.Sidecars != "" && i < r.shape.Namespaces; i++ {
		if err := put(r.path("sidecar", i), r.sidecar(i)); err != nil {
			return n, err
		}
	}
	service, entries := machines()
	if err := put(filepath.Join(r.dir, "machines.yaml"), service); err != nil {
		return n, err
	}
	for i, text := range entries {
		if err := put(r.path("machine", i), text); err != nil {
			return n, err
		}
	}
	return n, nil
}

// replace puts text in place of a file as an atomic rename does.
func replace(path, text string) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
