package histories

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/test/platform/kube/cluster"
)

// TestCluster: the same histories, with objects in a cluster. Services, pods, machines and namespaces change too. Meanwhile the API server
// is cut off, loses its history, and is killed. At times a Secret names another cluster: its objects change as well, and it is cut off.
func TestCluster(t *testing.T) {
	shared := newPlanes(t)
	w := newKubernetes(t, shared)
	hunt(t, hunting{usual: 40, platform: true, fit: single, patience: time.Minute}, func(t *testing.T, seed uint64) (*player, error) {
		if err := w.empty(t.Context()); err != nil {
			return nil, err
		}
		p := *shared
		p.linger, p.grace = time.Hour, 5*time.Millisecond
		return &player{
			world: w, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return p.start(ctx) },
		}, nil
	})
}

// newKubernetes starts two API servers; planes read the first.
func newKubernetes(t *testing.T, shared *planes) *kubernetes {
	t.Helper()
	c := cluster.Start(t)
	c.Define(t)
	west := cluster.Start(t)
	w := &kubernetes{t: t, server: server{c}, gate: c.Gate(t), west: server{west}, westGate: west.Gate(t)}
	shared.kube = c.Kubeconfig(t, w.gate, "plane", "system:masters")
	way, err := os.ReadFile(west.Kubeconfig(t, w.westGate, "plane", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	w.secret = fmt.Sprintf("apiVersion: v1\nkind: Secret\n"+
		"metadata: {name: west, namespace: istio-system, labels: {istio/multiCluster: \"true\"}}\ndata: {west: %s}\n",
		base64.StdEncoding.EncodeToString(way))
	return w
}

// single removes the actions that put an object into a second file: a cluster has one object of a name.
func single(s script) script {
	var out script
	for _, st := range s {
		if st = slices.DeleteFunc(slices.Clone(st), func(a action) bool { return a.Copy != nil }); len(st) > 0 {
			out = append(out, st)
		}
	}
	return out
}

// The outages of an API server while the cluster changes.
const (
	cut       = "cut"       // it cannot be reached
	compacted = "compacted" // it cannot be reached, and then it has forgotten its history
	killed    = "killed"    // it is killed, and started again
	westCut   = "west cut"  // the API server of the other cluster cannot be reached
)

// kubernetes is a cluster that changes.
type kubernetes struct {
	t *testing.T
	server
	gate     *cluster.Gate
	west     server
	westGate *cluster.Gate
	secret   string // that names the other cluster
	outage   string
	mesh     map[string]string // the keys of the ConfigMap
	changes  []func(context.Context) error
}

// server is an API server with what histories change there.
type server struct{ *cluster.Cluster }

func (w *kubernetes) do(a action) {
	switch {
	case a.Put != nil:
		w.note(func(ctx context.Context) error { return w.of(a.Put).put(ctx, a.Put.Text) })
	case a.Drop != nil:
		w.note(func(ctx context.Context) error { return w.of(a.Drop).drop(ctx, a.Drop.Text) })
		if _, namespace, is := strings.Cut(a.Drop.Key, "Namespace//"); is { // an empty one of its name takes its place
			w.note(func(ctx context.Context) error { return w.of(a.Drop).house(ctx, namespace) })
		}
	case a.West == "yes":
		w.note(func(ctx context.Context) error { return w.put(ctx, w.secret) })
	case a.West == "no":
		w.note(func(ctx context.Context) error { return w.drop(ctx, w.secret) })
	case a.Mesh != nil:
		w.configure("mesh", *a.Mesh)
	case a.Networks != nil:
		w.configure("meshNetworks", *a.Networks)
	case a.Condition != nil:
		w.note(func(ctx context.Context) error { return w.say(ctx, *a.Condition) })
	case a.Outage != "":
		w.outage = a.Outage
	}
}

// of returns the API server of a document.
func (w *kubernetes) of(d *document) server {
	if d.West {
		return w.west
	}
	return w.server
}

// say writes a condition, after another condition if Others is set. A missing WorkloadEntry is not an error.
func (w *kubernetes) say(ctx context.Context, c condition) error {
	conditions := []map[string]string{}
	if c.Others {
		conditions = append(conditions, map[string]string{"type": "Seen", "status": "True"})
	}
	if c.Status != "" {
		conditions = append(conditions, map[string]string{"type": "Healthy", "status": c.Status, "message": "said by another"})
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/apis/networking.istio.io/v1/namespaces/%s/workloadentries/%s/status", c.Namespace, c.Name)
	_, err = w.Do(ctx, http.MethodPatch, path, "application/merge-patch+json", body)
	var answer *cluster.Refused
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}

func (w *kubernetes) note(change func(context.Context) error) { w.changes = append(w.changes, change) }

// configure changes one key of the mesh's ConfigMap; an empty text takes it away.
func (w *kubernetes) configure(key, text string) {
	if w.mesh[key] = text; text == "" {
		delete(w.mesh, key)
	}
	all := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata:\n"
	for _, k := range []string{"mesh", "meshNetworks"} {
		if text, has := w.mesh[k]; has {
			all += fmt.Sprintf("  %s: %q\n", k, text)
		}
	}
	w.note(func(ctx context.Context) error { return w.put(ctx, all) })
}

// write makes the changes, during an outage if there is to be one.
func (w *kubernetes) write(ctx context.Context) error {
	changes, outage := w.changes, w.outage
	w.changes, w.outage = nil, ""
	if outage == killed {
		w.StopServer()
		w.StartServer(w.t)
	}
	if outage == westCut {
		w.westGate.Close()
		defer w.westGate.Open(w.t)
	}
	if outage == cut || outage == compacted {
		w.gate.Close()
		defer w.gate.Open(w.t)
	}
	for _, change := range changes {
		if err := change(ctx); err != nil {
			return err
		}
	}
	if outage == compacted {
		w.Compact(w.t)
	}
	return nil
}

// put stores an object. If a field changes that may not change, the object is deleted and made again. If the API server
// still refuses the object, it is not stored.
func (s server) put(ctx context.Context, text string) error {
	_, err := s.Try(ctx, text)
	if refused(err) {
		if err := s.drop(ctx, text); err != nil {
			return err
		}
		if _, err = s.Try(ctx, text); refused(err) {
			return nil
		}
	}
	return err
}

func refused(err error) bool {
	var answer *cluster.Refused
	return errors.As(err, &answer) && (answer.Status == http.StatusUnprocessableEntity || answer.Status == http.StatusBadRequest)
}

func (s server) drop(ctx context.Context, text string) error {
	err := s.Remove(ctx, text)
	var answer *cluster.Refused
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// house makes a namespace, and the accounts of the pods in it.
func (s server) house(ctx context.Context, namespace string) error {
	if err := s.put(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}"); err != nil {
		return err
	}
	for _, account := range []string{"web", "edge"} {
		text := fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}", account, namespace)
		if err := s.put(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// empty deletes all objects that histories make, and makes the namespaces that they use.
func (w *kubernetes) empty(ctx context.Context) error {
	w.mesh, w.changes, w.outage = map[string]string{}, nil, ""
	if err := errors.Join(w.server.empty(ctx), w.west.empty(ctx), w.drop(ctx, w.secret)); err != nil {
		return err
	}
	for kind, k := range kindsOf {
		if err := w.Clear(ctx, k.group, config.Kind(kind).Word(), namespaces...); err != nil {
			return err
		}
	}
	return w.drop(ctx, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}")
}

// empty deletes the objects of Kubernetes' own kinds.
func (s server) empty(ctx context.Context) error {
	for _, namespace := range namespaces {
		if err := s.house(ctx, namespace); err != nil {
			return err
		}
	}
	for _, kind := range platformKinds {
		if kind.name == "Namespace" {
			continue
		}
		if err := s.Clear(ctx, kind.group, kind.name, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

// platformKinds are those of Kubernetes' own that histories of a cluster draw from.
var platformKinds = []struct {
	group, name string
	draw        func(d draw, namespace, name string) string
}{
	{"v1", "Service", draw.service},
	{"v1", "Service", draw.service},
	{"v1", "Pod", draw.pod},
	{"v1", "Pod", draw.pod},
	{"v1", "Pod", draw.pod},
	{"discovery.k8s.io/v1", "EndpointSlice", draw.endpointSlice},
	{"v1", "Node", draw.node},
	{"v1", "Namespace", draw.namespace},
}

// platform draws an object of a cluster.
func (d draw) platform() document {
	k := pick(d, platformKinds...)
	namespace, name := pick(d, namespaces[1:]...), pick(d, "a", "b", "one", "two")
	switch k.name {
	case "Node":
		namespace = ""
	case "Namespace":
		namespace, name = "", namespace
	}
	meta := "name: " + name
	if namespace != "" {
		meta += ", namespace: " + namespace
	}
	key, west := k.name+"/"+namespace+"/"+name, d.often(3)
	if west {
		key = "west " + key
	}
	return document{
		File: files[0], Key: key, West: west,
		Text: fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {%s%s\n", k.group, k.name, meta, k.draw(d, namespace, name)),
	}
}

func (d draw) service(namespace, _ string) string {
	out := pick(d, "", "", "", ", labels: {topology.istio.io/network: n1}", ", labels: {topology.istio.io/network: n2}")
	if d.often(1) {
		return d.nodePort()
	}
	var notes []string
	if export := pick(d, "", "", ".", "bank", "*"); export != "" {
		notes = append(notes, fmt.Sprintf("networking.istio.io/exportTo: %q", export))
	}
	if d.often(3) {
		notes = append(notes, fmt.Sprintf("fairway/rules-from: %q", d.agreed()))
	}
	if len(notes) > 0 {
		out += ", annotations: {" + strings.Join(notes, ", ") + "}"
	}
	if d.often(1) {
		return out + "}\nspec: {type: ExternalName, externalName: " + pick(
			d, "x.example.com", "a."+namespace+".svc.cluster.local", "b.shop.svc.cluster.local", "one.bank.svc.cluster.local",
		) + "}"
	}
	var ports []string
	for i, number := range some(d, 80, 81, 3306) {
		target := pick(d, "", ", targetPort: 8080", ", targetPort: serve")
		ports = append(ports, fmt.Sprintf("{name: %s-p%d, port: %d%s}", pick(d, "http", "grpc", "tcp", "other"), i, number, target))
	}
	out += "}\nspec: {ports: " + list(ports)
	if d.often(9) {
		out += ", selector: {app: " + pick(d, "a", "b") + "}"
	}
	out += pick(d, "", "", "", "",
		", trafficDistribution: "+d.distribution(), ", internalTrafficPolicy: Local", ", externalIPs: [10.9.0.4]")
	return out + pick(d, "", "", "", ", clusterIP: None", ", publishNotReadyAddresses: true") + "}"
}

// pod draws one of few that are always on the same machine and of the same account, since neither may change.
func (d draw) pod(_, name string) string {
	account, machine, second := "web", "one", ""
	if name == "b" || name == "two" {
		account, machine = "edge", "two"
	}
	labels := d.labels() + pick(
		d, "", "", ", security.istio.io/tlsMode: istio", ", topology.istio.io/network: n1", ", istio-locality: r2.z1",
	)
	address, ready := pick(d, workloads[:3]...), pick(d, "True", "True", "False")
	if d.often(4) {
		second = ", {ip: " + sixth(address) + "}"
	}
	return fmt.Sprintf(`, labels: {%s}}
spec:
  nodeName: %s
  serviceAccountName: %s
  containers: [{name: web, image: web, ports: [{name: serve, containerPort: 9090}]}]
status: {phase: %s, podIP: %s, podIPs: [{ip: %s}%s], conditions: [{type: Ready, status: %q}]}`,
		labels, machine, account, pick(d, "Running", "Running", "Running", "Pending", "Failed"), address, address, second, ready)
}

// sixth returns the IPv6 address for an IPv4 address.
func sixth(address string) string { return "fd00::" + address[strings.LastIndex(address, ".")+1:] }

// endpointSlice draws one made by hand, of a Service that may have no selector. Those of two names are of IPv6.
func (d draw) endpointSlice(_, name string) string {
	var endpoints []string
	family, six := "IPv4", name == "two" || name == "b"
	if six {
		family = "IPv6"
	}
	for _, address := range some(d, workloads[:3]...) {
		if six {
			address = strconv.Quote(sixth(address))
		}
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%s], conditions: {ready: %s, serving: %s, terminating: %s}%s}", address,
			pick(d, "true", "false"), pick(d, "true", "false"), pick(d, "true", "false"),
			pick(d, "", "", ", hostname: h", ", targetRef: {kind: Pod, name: "+pick(d, "a", "b", "one")+"}")))
	}
	return fmt.Sprintf(", labels: {kubernetes.io/service-name: %s}}\naddressType: %s\nports: [{name: %s, port: %d}]\nendpoints: %s",
		pick(d, "a", "b", name), family, pick(d, "http-p0", "grpc-p0", "tcp-p0", "other-p1"), pick(d, 80, 8080), list(endpoints))
}

func (d draw) node(_, _ string) string {
	return fmt.Sprintf(
		", labels: {topology.kubernetes.io/region: %s, topology.kubernetes.io/zone: %s%s}}\nstatus: {addresses: [%s]}",
		pick(d, "r1", "r2"), pick(d, "z1", "z2"), pick(d, "", ", role: edge"),
		pick(d, "", "{type: ExternalIP, address: 10.9.1.1}", "{type: InternalIP, address: 10.9.1.2}"),
	)
}

func (d draw) namespace(_, _ string) string {
	return ", labels: {" + pick(d, "a: b", "topology.istio.io/network: n1", "topology.istio.io/network: n2") + d.seen() + "}}"
}
