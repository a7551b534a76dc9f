package compile_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/test/rig"

	"github.com/google/go-cmp/cmp"
)

// history is a mesh that changes at random, and what it must be like if it were made at once.
type history struct {
	t       *rapid.T
	tb      testing.TB
	world   *compiletest.World
	objects map[config.Key]string
	rows    map[string]source.Rows // of a cluster, each by a name of its own
	proxies map[mesh.ProxyID]mesh.Proxy
}

var (
	namespaces = []string{"istio-system", "shop", "bank"}
	exports    = append(rulesFor, `"~"`)
	rulesFor   = []string{`"*"`, `"."`, `bank`, `shop, bank`} // every rule is for some namespace
	hosts      = []string{
		"a",
		"a.shop.svc.cluster.local",
		"b.bank.svc.cluster.local",
		"*.shop.svc.cluster.local",
		"x.example.com",
		"*.example.com",
		"*",
	}
)

func pick[T any](t *rapid.T, label string, from []T) T { return rapid.SampledFrom(from).Draw(t, label) }

// object draws an object of a kind; few names and hosts, so that they meet.
func (h *history) object(t *rapid.T) (config.Key, string) {
	kind := pick(t, "kind",
		[]string{"ServiceEntry", "WorkloadEntry", "VirtualService", "DestinationRule", "Sidecar", "Gateway", "Secret", "WorkloadGroup",
			"AuthorizationPolicy"})
	k := config.Key{Kind: config.Kind(kind), Namespace: pick(t, "namespace", namespaces), Name: pick(t, "name", []string{"one", "two"})}
	host := pick(t, "host", hosts)
	var spec string
	switch kind {
	case "ServiceEntry":
		backing := pick(
			t,
			"backing",
			[]string{"endpoints: [{address: 10.0.0.1, labels: {version: v1}}, {address: 10.0.0.2}]", "workloadSelector: {labels: {app: a}}",
				"endpoints: [{address: 127.0.0.1, labels: {version: v1}}, {address: 10.0.0.2}]"},
		)
		if host == "*" || host == "a" {
			host = "a.shop.svc.cluster.local"
		}
		spec = fmt.Sprintf(`{hosts: [%q], ports: [{number: %d, name: p, protocol: %s}], resolution: STATIC, exportTo: [%s], %s}`,
			host, rapid.SampledFrom([]int{80, 81}).Draw(t, "port"), pick(t, "protocol", []string{"HTTP", "TCP"}),
			pick(t, "export", exports), backing)
		if strings.HasPrefix(host, "*.") && rapid.Bool().Draw(t, "dynamic") {
			spec = fmt.Sprintf(
				`{hosts: [%q], ports: [{number: %d, name: p, protocol: %s}], resolution: DYNAMIC_DNS, exportTo: [%s]}`, host,
				rapid.SampledFrom([]int{80, 81, 443}).Draw(t, "port"),
				pick(t, "protocol", []string{"HTTP", "TLS"}),
				pick(t, "export", exports),
			)
		}
	case "WorkloadEntry":
		spec = fmt.Sprintf(`{address: %s, labels: {app: %s}%s}`,
			pick(t, "address", []string{"10.0.0.3", "10.0.0.3", "169.254.1.1"}), pick(t, "app", []string{"a", "b"}),
			pick(t, "account", []string{"", ", serviceAccount: x"}))
	case "WorkloadGroup":
		spec = fmt.Sprintf(`{metadata: {labels: {app: %s}}, template: {serviceAccount: %q}}`, pick(t, "app", []string{"a", "gw"}),
			pick(t, "account", []string{"x", "y"}))
	case "VirtualService":
		gateways := pick(t, "gateways", []string{"mesh", "shop/one", "mesh, shop/one"})
		if host == "*" {
			gateways = "shop/one"
		}
		spec = fmt.Sprintf(`{hosts: [%q], exportTo: [%s], gateways: [%s], http: [{route: [{destination: {host: %s, subset: v1}}]}]}`,
			host, pick(t, "export", rulesFor), gateways, pick(t, "target", []string{"a", "b.bank.svc.cluster.local", `"*.example.com"`}))
	case "DestinationRule":
		export := pick(t, "export", rulesFor)
		clients := pick(t, "clients", []string{"", "", "workloadSelector: {matchLabels: {app: a}}, "})
		if clients != "" {
			export = `"."`
		}
		spec = fmt.Sprintf(`{host: %q, exportTo: [%s], %ssubsets: [{name: v1, labels: {version: v1}}]}`, host, export, clients)
	case "Sidecar":
		selector := pick(t, "selector", []string{"", "workloadSelector: {labels: {app: a}}, "})
		spec = fmt.Sprintf(`{%segress: [{hosts: [%s]}]}`, selector,
			pick(t, "egress", []string{`"*/*"`, `"./*"`, `"shop/*.shop.svc.cluster.local"`, `"*/x.example.com"`}))
	case "Gateway":
		spec = fmt.Sprintf(
			`{selector: {app: gw}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [%[1]s]}, {port: {number: 443, name: https, protocol: HTTPS}, hosts: [%[1]s], tls: {mode: SIMPLE, credentialName: %[2]s}}]}`,
			pick(t, "served", []string{`"*"`, `"x.example.com"`}),
			pick(t, "credential", []string{"one", "two"}),
		)
	case "Secret":
		return k, fmt.Sprintf(
			"apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s, annotations: {fairway/service-accounts: %q}}\n%s",
			k.Name, k.Namespace, pick(t, "holders", []string{"x", "x,y", "*"}), credentialData())
	}
	group := "networking.istio.io/v1"
	if kind == "AuthorizationPolicy" {
		group = "security.istio.io/v1"
		spec = fmt.Sprintf(`{rules: [{from: [{source: {%s}}]}]}`, pick(t, "callers", []string{
			"namespaces: [shop]", "namespaces: [bnak]", "principals: [cluster.local/ns/shop/sa/rebiews]", "serviceAccounts: [bank/reviews]",
			`principals: ["*/sa/x"]`, "principals: [cluster.local/ns/bank/sa/x]",
		}))
	}
	return k, fmt.Sprintf(
		"apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s, creationTimestamp: \"2020-01-0%dT00:00:00Z\"}\nspec: %s\n",
		group, kind, k.Name, k.Namespace, rapid.IntRange(1, 3).Draw(t, "day"), spec)
}

// credentialData are the data of a Secret with a certificate and its key.
var credentialData = sync.OnceValue(func() string {
	certificate, key, err := rig.Pair()
	if err != nil {
		panic(err)
	}
	encoded := base64.StdEncoding.EncodeToString
	return "data: {tls.crt: " + encoded(certificate) + ", tls.key: " + encoded(key) + "}\n"
})

// row draws a row of a cluster, with the keys that take it away.
func (h *history) row(t *rapid.T) (name string, set source.Rows, gone source.Keys) {
	namespace, letter := pick(t, "row's namespace", namespaces[1:]), pick(t, "letter", []string{"a", "b"})
	service := mesh.ServiceKey{
		Host: mesh.Host(letter + "." + namespace + ".svc.cluster.local"), Namespace: namespace, Registry: "Kubernetes/east", Object: letter,
	}
	kind := pick(t, "row", []string{"service", "slice", "slice", "workload", "workload", "namespace"})
	name = kind + " " + namespace + "/" + letter
	switch kind {
	case "service":
		gone.Services = []mesh.ServiceKey{service}
		set.Services = []*mesh.Service{{
			Key: service, Ports: []mesh.Port{{Name: "p", Number: 80, Protocol: mesh.HTTP}}, Addresses: []string{"10.1.0.1"},
			Selects: mesh.Labels(pick(t, "selects", []string{"", "app=a", "app=a,tier=x"})), TargetNames: mesh.Labels(pick(t, "targets",
				[]string{"", "p=serve"})),
			Origin: mesh.ObjectRef{Kind: "Service", Namespace: namespace, Name: letter},
		}}
	case "slice":
		slice := &mesh.Slice{Key: mesh.SliceKey{Service: service, Name: pick(t, "slice", []string{"one", "two"})}}
		name += " " + slice.Key.Name
		for range rapid.IntRange(0, 1).Draw(t, "endpoints") {
			slice.Endpoints = []mesh.SliceEndpoint{{ID: slice.Key.Name, Endpoint: mesh.Endpoint{
				Address: "10.0.0.7", Ports: mesh.PortMap(pick(t, "ports", []string{"", "p=8080"})), ListsAll: true,
			}}}
		}
		gone.Slices, set.Slices = []mesh.SliceKey{slice.Key}, []*mesh.Slice{slice}
	case "workload":
		k := mesh.WorkloadKey{Registry: "Kubernetes/east", Namespace: namespace, Name: letter}
		gone.Workloads = []mesh.WorkloadKey{k}
		set.Workloads = []*mesh.Workload{{
			Key: k, ServiceAccount: pick(t, "runs as", []string{"x", "reviews", "rebiews", ""}),
			Labels: mesh.Labels(pick(t, "pod's labels", []string{"app=a", "app=a,tier=y", "app=aa,pod-template-hash=1", "app=a,tier=x"})),
		}}
	default:
		name = kind + " " + namespace // both letters are the same row
		k := mesh.NamespaceKey{Registry: "Kubernetes/east", Name: namespace}
		gone.Namespaces, set.Namespaces = []mesh.NamespaceKey{k}, []mesh.Namespace{{Key: k}}
	}
	return name, set, gone
}

func (h *history) step(t *rapid.T) {
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 6, 7:
		name, set, _ := h.row(t)
		h.rows[name] = set
		h.world.In.Apply(source.Batch{Set: set})
	case 8:
		name, _, gone := h.row(t)
		delete(h.rows, name)
		h.world.In.Apply(source.Batch{Gone: gone})
	case 0:
		p := compiletest.Sidecar(pick(t, "proxy", []string{"p", "q"}), pick(t, "in", namespaces),
			pick(t, "ip", []string{"10.0.0.1", "10.0.0.3"}))
		p.Labels = mesh.Labels(pick(t, "labels", []string{"", "app=a"}))
		p.AutoVIP = rapid.Bool().Draw(t, "vip")
		p.Standing = pick(t, "standing", []mesh.Standing{mesh.Unproven, mesh.Here, mesh.Proven})
		p.ServiceAccount = pick(t, "account", []string{"x", "y"})
		if rapid.IntRange(0, 3).Draw(t, "router") == 0 {
			p.ID, p.Type, p.Labels = "router"+p.ID, mesh.Router, "app=gw"
		}
		h.proxies[p.ID] = p
		h.world.Connect(p)
	case 1:
		for _, id := range sortedProxies(h.proxies) {
			delete(h.proxies, id)
			h.world.In.Proxies.Delete(id)
			break
		}
	case 2:
		k, _ := h.object(t)
		delete(h.objects, k)
		h.world.In.Apply(source.Batch{Gone: source.Keys{Objects: []config.Key{k}}})
	default:
		k, text := h.object(t)
		h.objects[k] = text
		h.world.Apply(text)
	}
}

// After any history the tables, problems and published resources are the same as those of the same mesh made at once.
func TestHistoryLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{
			t: rt, tb: t, world: compiletest.New(t), objects: map[config.Key]string{}, rows: map[string]source.Rows{},
			proxies: map[mesh.ProxyID]mesh.Proxy{},
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			h.step(rt)
			if rapid.Bool().Draw(rt, "settle") {
				h.world.Settle()
			}
			if rapid.IntRange(0, 9).Draw(rt, "read") == 0 {
				h.world.In.SourcesRead.Set(struct{}{}, true)
			}
		}
		h.world.In.SourcesRead.Set(struct{}{}, true)
		h.world.Settle()
		if found := h.world.Store.Recheck(1000); len(found) > 0 {
			rt.Fatalf("rows are not what their reads make of them: %v", found)
		}
		fresh := compiletest.New(t)
		for _, k := range sortedObjects(h.objects) {
			fresh.Apply(h.objects[k])
		}
		for _, rows := range h.rows {
			fresh.In.Apply(source.Batch{Set: rows})
		}
		for _, id := range sortedProxies(h.proxies) {
			fresh.Connect(h.proxies[id])
		}
		fresh.In.SourcesRead.Set(struct{}{}, true)
		fresh.Settle()
		if diff := cmp.Diff(everything(fresh), everything(h.world)); diff != "" {
			rt.Fatalf("-from scratch +after its history\n%s", diff)
		}
	})
}

// everything prints what the outside sees of a world.
func everything(w *compiletest.World) string {
	var b strings.Builder
	for _, name := range []string{
		"services", "merged", "endpoints", "vips", "placements", "layers", "inbounds", "attachments", "egress",
		"rules", "seen",
	} {
		fmt.Fprintf(&b, "# %s\n%s", name, w.Print(name, ""))
	}
	w.Store.Read(func(tx *table.Tx) {
		for _, tables := range w.Out.Resources {
			for _, t := range tables {
				for k, e := range table.All(tx, t) {
					fmt.Fprintf(&b, "%s %v %s %x %v %v\n", t.Name(), k.Shelf, k.Name, e.Version, e.Needs, e.Err)
				}
			}
		}
	})
	return b.String() + w.ProblemText()
}
