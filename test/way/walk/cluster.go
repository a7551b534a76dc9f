package walk

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
)

// cluster is a stand-in for an API server: it has one AuthorizationPolicy, and sends its changes to watches.
type cluster struct {
	server *httptest.Server

	mu      sync.Mutex
	version int
	path    string
	changed chan struct{} // closed with the next version
}

func newCluster() *cluster {
	c := &cluster{version: 1, path: "/a", changed: make(chan struct{})}
	c.server = httptest.NewTLSServer(c)
	return c
}

func (c *cluster) close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// set changes the path that the AuthorizationPolicy denies.
func (c *cluster) set(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.path = path
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) kubeconfig() string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}))
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: t}}]\n",
		c.server.URL, ca)
}

// words of Kubernetes' own kinds in paths. There is no object of them.
var words = map[string]string{
	"pods": "Pod", "services": "Service", "endpointslices": "EndpointSlice", "nodes": "Node", "namespaces": "Namespace",
	"secrets": "Secret", "configmaps": "ConfigMap", "ingresses": "Ingress", "ingressclasses": "IngressClass",
	"mutatingwebhookconfigurations": "PartialObjectMetadata", "customresourcedefinitions": "PartialObjectMetadata",
}

// group and version of the AuthorizationPolicy.
const group = "security.istio.io/v1"

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	gv, resource := path.Split(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"))
	gv = strings.TrimSuffix(gv, "/")
	kind := cmp.Or(words[resource], resource) // kinds of CRDs have their own names in paths
	switch watches := r.URL.Query().Get("watch") != ""; {
	case defined(gv):
		answer(w, served(gv+"/"+resource))
	case r.Method != http.MethodGet || words[resource] == "" && !defined(path.Dir(gv)):
		http.Error(w, "there is none", http.StatusNotFound)
	case watches && kind == string(config.AuthorizationPolicy):
		c.watch(w, r)
	case watches:
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case kind == string(config.AuthorizationPolicy):
		object, version, _ := c.object()
		answer(w, list(kind, gv, version, object))
	case kind == "PartialObjectMetadata":
		answer(w, list(kind, "meta.k8s.io/v1", 1))
	default:
		answer(w, list(kind, gv, 1))
	}
}

// defined reports whether CRDs would define a group's kinds.
func defined(group string) bool {
	return strings.HasSuffix(group, ".istio.io") || group == gatewayv1.GroupName || group == config.InferencePool.Group()
}

// served returns the server's answer about a group and version: it serves every kind in every one. A missing kind would be asked for again
// and again, which would run code all the time.
func served(gv string) map[string]any {
	var all []any
	for _, k := range slices.Concat(config.Kinds(), config.GatewayKinds()) {
		all = append(all, map[string]any{"name": k.Word(), "kind": k.Word(), "namespaced": true, "verbs": []string{"list", "watch"}})
	}
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": all}
}

// watch sends every version from now on.
func (c *cluster) watch(w http.ResponseWriter, r *http.Request) {
	_, _, changed := c.object()
	w.(http.Flusher).Flush()
	for {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		var object any
		object, _, changed = c.object()
		answer(w, map[string]any{"type": "MODIFIED", "object": object})
		w.(http.Flusher).Flush()
	}
}

// object returns the AuthorizationPolicy, its version, and a channel that is closed with the next one.
func (c *cluster) object() (object any, version int, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return map[string]any{
		"apiVersion": group, "kind": "AuthorizationPolicy",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": fmt.Sprint(c.version)},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "action": "DENY",
			"rules": []any{map[string]any{"to": []any{map[string]any{"operation": map[string]any{"paths": []string{c.path}}}}}},
		},
	}, c.version, c.changed
}

func list(kind, group string, version int, items ...any) map[string]any {
	if items == nil {
		items = []any{}
	}
	return map[string]any{
		"kind": kind + "List", "apiVersion": group, "metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items,
	}
}

func answer(w http.ResponseWriter, what any) {
	_ = json.NewEncoder(w).Encode(what) // the client may be gone
}
