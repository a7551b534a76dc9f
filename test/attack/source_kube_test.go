package attack

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/test/rig"
)

// cluster is a fake API server. hostile answers the requests that it chooses; if it returns false, the request is answered as by an empty
// cluster.
type cluster struct {
	hostile func(w http.ResponseWriter, r *http.Request, resource string, watch bool) bool
	secrets []map[string]any
}

var listKinds = map[string]string{
	"pods": "Pod", "services": "Service", "endpointslices": "EndpointSlice", "nodes": "Node", "namespaces": "Namespace",
	"secrets": "Secret", "configmaps": "ConfigMap", "ingresses": "Ingress", "ingressclasses": "IngressClass",
	"mutatingwebhookconfigurations": "PartialObjectMetadata", "customresourcedefinitions": "PartialObjectMetadata",
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, watch := path.Base(r.URL.Path), r.URL.Query().Get("watch") != ""
	if c.hostile != nil && c.hostile(w, r, resource, watch) {
		return
	}
	kind := listKinds[resource]
	if kind == "" {
		http.Error(w, "nothing of that", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if watch {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	items := []map[string]any{}
	if resource == "secrets" && r.URL.Query().Get("labelSelector") != "" {
		items = append(items, c.secrets...)
	}
	group := strings.TrimPrefix(path.Dir(strings.TrimPrefix(r.URL.Path, "/apis/")), "/api/")
	if kind == "PartialObjectMetadata" {
		group = "meta.k8s.io/v1"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind + "List", "apiVersion": group, "metadata": map[string]any{"resourceVersion": "1"}, "items": items,
	})
}

const clusterToken = "a-token-of-the-cluster-that-nobody-may-see-0123456789"

// kubeconfigOf reaches a server of a test.
func kubeconfigOf(s *httptest.Server) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %s}}]\n",
		s.URL, ca, clusterToken)
}

// startRemote starts a control plane in a cluster, which has a Secret that leads to a hostile one.
func startRemote(t *testing.T, hostile func(w http.ResponseWriter, r *http.Request, resource string, watch bool) bool) *reading {
	t.Helper()
	remote := httptest.NewTLSServer(&cluster{hostile: hostile})
	own := httptest.NewTLSServer(&cluster{secrets: []map[string]any{{
		"metadata": map[string]any{
			"name": "far", "namespace": "istio-system", "uid": "1", "resourceVersion": "1",
			"labels": map[string]string{"istio/multiCluster": "true"},
		},
		"data": map[string]string{"far": base64.StdEncoding.EncodeToString([]byte(kubeconfigOf(remote)))},
	}}})
	config := rig.Write(t, rig.Folder(t), "kubeconfig", []byte(kubeconfigOf(own)))
	r := startReading(t, "--registries", "Kubernetes", "--kubeconfig", config)
	t.Cleanup(func() {
		r.Kill()
		for _, s := range []*httptest.Server{remote, own} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return r
}

// added writes ADDED events until the client leaves, or n have been written.
func added(w http.ResponseWriter, r *http.Request, all *sent, n int, object func(i int) string) {
	w.Header().Set("Content-Type", "application/json")
	for i := range n {
		if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object(i)); err != nil {
			return
		}
	}
	w.(http.Flusher).Flush()
	all.now()
	<-r.Context().Done()
}

func metaOf(i int, more string) string {
	return fmt.Sprintf(`"metadata":{"namespace":"shop","name":"x%d","uid":"%d","resourceVersion":"%d"%s}`, i, i, i+2, more)
}

// A remote cluster that tells of more endpoints by ADDED events than are kept has the rest left out.
func TestRemoteClusterOfManyEndpoints(t *testing.T) {
	endpoints := make([]string, 1000)
	var s sent
	r := startRemote(t, func(w http.ResponseWriter, r *http.Request, resource string, watch bool) bool {
		if resource != "endpointslices" || !watch {
			return false
		}
		added(w, r, &s, 700, func(i int) string {
			for j := range endpoints {
				endpoints[j] = fmt.Sprintf(`{"addresses":["10.%d.%d.%d"]}`, i%250, j/250, j%250)
			}
			return fmt.Sprintf(`{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1",%s,"addressType":"IPv4",`+
				`"ports":[{"name":"http","port":80}],"endpoints":[%s]}`,
				metaOf(i, fmt.Sprintf(`,"labels":{"kubernetes.io/service-name":"s%d"}`, i)), strings.Join(endpoints, ","))
		})
		return true
	})
	r.tellsSoon(t, &s, "the source has more than its limits allow")
	r.holds(t)
}

// A remote cluster with another attack in each kind: a Service of 65,535 ports by an event, pages that never end, a page of objects that
// are large once they are decoded, and errors that show the token.
func TestHostileRemoteCluster(t *testing.T) {
	var pages atomic.Int64
	var ported, paged, refused sent
	ports := make([]string, 65535)
	for i := range ports {
		ports[i] = fmt.Sprintf(`{"name":"http-%d","port":%d}`, i+1, i+1)
	}
	r := startRemote(t, func(w http.ResponseWriter, r *http.Request, resource string, watch bool) bool {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case resource == "services" && watch:
			added(w, r, &ported, 1, func(i int) string {
				return fmt.Sprintf(`{"kind":"Service","apiVersion":"v1",%s,"spec":{"clusterIP":"10.1.1.1","ports":[%s]}}`,
					metaOf(i, ""), strings.Join(ports, ","))
			})
		case resource == "nodes" && !watch:
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"c%d"},"items":[]}`, pages.Add(1))
			if pages.Load() > 50 {
				paged.now()
			}
		case resource == "pods" && !watch:
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{%s,"spec":{"containers":[%s{}]}}]}`,
				metaOf(1, ""), strings.Repeat("{},", 900_000))
		case resource == "endpointslices" && !watch:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"who shows %s?"}`,
				r.Header.Get("Authorization"))
			refused.now()
		default:
			return false
		}
		return true
	})
	r.tellsAllSoon(t, telling{sent: &ported, what: "has 65535 ports; those after the first 256 are left out"},
		telling{sent: &paged, what: "page after page"}, telling{sent: &refused, what: "who shows Bearer"})
	r.holds(t)
	before, from := pages.Load(), time.Now()
	rig.Eventually(t, func() error {
		if time.Since(from) < 3*time.Second {
			return errors.New("the count goes on")
		}
		return nil
	})
	if n := pages.Load() - before; n > 1000 {
		t.Errorf("%d pages without an end are asked for in three seconds", n)
	}
	r.nowhere(t, clusterToken)
	r.nowhere(t, clusterToken[5:30])
}
