package lacking_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

const registry = "Kubernetes/east"

// cluster is a mesh of one cluster's rows.
type cluster struct {
	*compiletest.World
	t *testing.T
}

func newCluster(t *testing.T) cluster {
	c := cluster{compiletest.New(t), t}
	c.In.SourcesRead.Set(struct{}{}, true)
	return c
}

func serviceKey(name string) mesh.ServiceKey {
	return mesh.ServiceKey{Host: mesh.Host(name + ".shop.svc.cluster.local"), Namespace: "shop", Registry: registry, Object: name}
}

// service sets a Service of namespace shop, with a port http at the target "serve".
func (c cluster) service(name, selector string) {
	c.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{{
		Key: serviceKey(name), Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, Addresses: []string{"10.1.0.1"},
		Selects: mesh.Labels(selector), TargetNames: "http=serve", Origin: mesh.ObjectRef{Kind: "Service", Namespace: "shop", Name: name},
	}}}})
}

// slice sets a slice of a Service: endpoints that serve ports ("http=8080").
func (c cluster) slice(of, name, ports string, addresses ...string) {
	s := &mesh.Slice{Key: mesh.SliceKey{Service: serviceKey(of), Name: name}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, mesh.SliceEndpoint{ID: a, Endpoint: mesh.Endpoint{
			Address: a, Ports: mesh.PortMap(ports), ListsAll: true,
		}})
	}
	c.In.Apply(source.Batch{Set: source.Rows{Slices: []*mesh.Slice{s}}})
}

func podKey(name string) mesh.WorkloadKey {
	return mesh.WorkloadKey{Registry: registry, Namespace: "shop", Name: name}
}

func (c cluster) pod(name, labels, account string) {
	c.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{{
		Key: podKey(name), Labels: mesh.Labels(labels), ServiceAccount: account,
	}}}})
}

func (c cluster) noPod(name string) {
	c.In.Apply(source.Batch{Gone: source.Keys{Workloads: []mesh.WorkloadKey{podKey(name)}}})
}

func (c cluster) namespace(name string) {
	c.In.Apply(source.Batch{Set: source.Rows{Namespaces: []mesh.Namespace{{Key: mesh.NamespaceKey{Registry: registry, Name: name}}}}})
}

// problems settles, and compares the problems of a code, one a line.
func (c cluster) problems(want, code string) {
	c.t.Helper()
	c.Settle()
	var got []string
	for _, p := range c.Problems() {
		if p.Code == code {
			p.Object.File = ""
			got = append(got, p.String())
		}
	}
	if text := strings.Join(got, "\n"); text != want {
		c.t.Errorf("the problems are\n%s\nwant\n%s", text, want)
	}
}

// A Service that selects no pod is reported once its slices are known to be empty, until a pod has its labels.
func TestServiceWithoutPods(t *testing.T) {
	c := newCluster(t)
	c.service("web", "app=web")
	c.problems("", "NoEndpoints") // no slice of it has been read
	c.slice("web", "web-1", "")
	const none = "info: Service shop/web spec.selector: no pod of namespace shop has the labels app=web: " +
		"requests to the Service fail; mend the selector, or start pods with these labels"
	const meant = "warning: Service shop/web spec.selector: no pod of namespace shop has the labels app=web: " +
		"requests to the Service fail; did you mean app: wbe?"
	c.problems(none, "NoEndpoints")
	c.pod("wbe-1", "app=wbe,pod-template-hash=1", "web")
	c.problems(meant, "NoEndpoints")
	c.pod("web-1", "app=web,pod-template-hash=1", "web")
	c.problems("", "NoEndpoints") // it starts
	c.noPod("web-1")
	c.problems(meant, "NoEndpoints")
	c.slice("web", "web-2", "http=8080", "10.0.0.1")
	c.problems("", "NoEndpoints") // another slice has an endpoint
	c.slice("web", "web-2", "")
	c.noPod("wbe-1")
	c.problems(none, "NoEndpoints")
	c.Apply("apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: g, namespace: shop}\n" +
		"spec: {metadata: {labels: {app: web}}, template: {}}")
	c.problems("", "NoEndpoints") // machines may join
	c.Delete("WorkloadGroup", "shop", "g")
	c.problems(none, "NoEndpoints")
	c.In.SourcesRead.Delete(struct{}{})
	c.problems("", "NoEndpoints")
}

// Pods and machines are only indexed while some Service has an empty slice.
func TestPodsAreIndexedWhileAsked(t *testing.T) {
	c := newCluster(t)
	c.pod("web-1", "app=web", "web")
	c.namespace("shop")
	rows := func() (n int) {
		c.Settle()
		for _, t := range c.Store.Tables() {
			if strings.HasPrefix(t.Name, "callers") || strings.HasPrefix(t.Name, "services/podless") {
				n += t.Rows + t.Absent
			}
		}
		return n
	}
	if n := rows(); n != 1 { // that a registry tells of namespaces
		t.Errorf("%d rows without a question", n)
	}
	c.service("web", "app=web")
	c.slice("web", "web-1", "")
	c.Apply(policy("principals: [cluster.local/ns/shop/sa/reviews]"))
	if n := rows(); n < 8 {
		t.Errorf("%d rows with questions", n)
	}
	c.slice("web", "web-1", "http=8080", "10.0.0.1")
	c.Apply(policy(`namespaces: ["sho*"]`))
	if n := rows(); n != 1 {
		t.Errorf("%d rows after the questions", n)
	}
}

// A target port's name is reported if endpoints serve other ports alone.
func TestTargetsWithoutPorts(t *testing.T) {
	c := newCluster(t)
	c.service("web", "app=web")
	c.problems("", "UnknownPort")
	c.slice("web", "web-1", "", "10.0.0.1")
	const want = `warning: Service shop/web spec.ports[http].targetPort: no container of the selected pods has a port named ` +
		`"serve": requests to port 80 fail; name the port of the container, or write a number`
	c.problems(want, "UnknownPort")
	c.slice("web", "web-2", "http=8080", "10.0.0.2") // newer pods have it
	c.problems("", "UnknownPort")
	c.slice("web", "web-2", "")
	c.problems(want, "UnknownPort")
	c.In.SourcesRead.Delete(struct{}{})
	c.problems("", "UnknownPort")
}

func policy(source string) string {
	return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\n" +
		"spec: {rules: [{from: [{source: {" + source + "}}]}]}"
}

// Callers that no workload is are reported once all sources have been read: namespaces of clusters, and accounts that resemble a known one.
func TestCallersThatNoWorkloadIs(t *testing.T) {
	at := func(field string) string {
		return "warning: AuthorizationPolicy shop/p spec.rules[0].from[0].source." + field + "[0]: "
	}
	account := func(field, meant string) string {
		return at(field) + `no workload of namespace shop that is known runs as service account "rebiews": no request comes from it; ` +
			"did you mean " + meant + "?"
	}
	namespace := func(name, fix string) string {
		return at("namespaces") + `no workload of a namespace "` + name + `" is known: no request comes from there; ` + fix
	}
	for name, one := range map[string]struct{ source, want string }{
		"account":           {"principals: [cluster.local/ns/shop/sa/rebiews]", account("principals", "cluster.local/ns/shop/sa/reviews")},
		"known":             {"principals: [cluster.local/ns/shop/sa/reviews]", ""},
		"another version":   {"principals: [cluster.local/ns/shop/sa/api-v3]", ""},
		"nothing like it":   {"principals: [cluster.local/ns/shop/sa/job]", ""},
		"another mesh":      {"principals: [other.org/ns/shop/sa/rebiews]", ""},
		"unknown accounts":  {"principals: [cluster.local/ns/bank/sa/telelr]", ""},
		"wildcard":          {`principals: ["*/ns/shop/sa/rebiews"]`, ""},
		"namespace":         {"namespaces: [shpo]", namespace("shpo", "did you mean shop?")},
		"strange namespace": {"namespaces: [elsewhere]", namespace("elsewhere", "name a namespace that there is")},
		"service account":   {"serviceAccounts: [rebiews]", account("serviceAccounts", "reviews")},
		"of a namespace":    {"serviceAccounts: [shop/rebiews]", account("serviceAccounts", "shop/reviews")},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.In.SourcesRead.Delete(struct{}{})
			c.Apply(policy(one.source))
			c.pod("reviews-1", "app=reviews", "reviews")
			c.pod("api-1", "app=api", "api-v2")
			c.namespace("shop")
			c.namespace("bank")
			for name, account := range map[string]string{"one": "", "two": ", serviceAccount: teller"} {
				c.Apply("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: " + name + ", namespace: bank}\n" +
					"spec: {address: 10.0.0.9" + account + "}")
			}
			c.problems("", "NoCaller") // sources are still being read
			c.In.SourcesRead.Set(struct{}{}, true)
			c.problems(one.want, "NoCaller")
			c.namespace("shpo")
			c.namespace("elsewhere")
			c.pod("rebiews-1", "app=rebiews", "rebiews")
			c.problems("", "NoCaller")
		})
	}
}

// Without a cluster that lists its namespaces, or if it lists only some, a strange namespace may exist.
func TestNamespacesMayExist(t *testing.T) {
	c := newCluster(t)
	c.pod("web-1", "app=web", "web")
	c.Apply(policy("namespaces: [elsewhere]"))
	c.problems("", "NoCaller")
	c.namespace("shop")
	c.Settle()
	if !strings.Contains(c.ProblemText(), `no workload of a namespace "elsewhere" is known`) {
		t.Error("the namespace is not reported")
	}
	c.Apply("kind: MeshConfig\nspec: {discoverySelectors: [{matchLabels: {mesh: a}}]}")
	c.problems("", "NoCaller")
}
