package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/stored/kube"
	"fairway/internal/store"
)

const front = `{"apiVersion":"networking.istio.io/v1","kind":"Gateway","metadata":{"name":"front","namespace":"shop","resourceVersion":"%d",` +
	`"uid":"u","generation":3,"managedFields":[{"manager":"x"}]},"spec":{"selector":{"a":"b"}},"status":{"x":1}}`

// server stands for an API server with one Gateway. It notes the requests that change something.
func server(t *testing.T) (flags cluster.Flags, seen *[]string) { return serverAt(t, new(7)) }

// serverAt is a server whose object is in a version.
func serverAt(t *testing.T, version *int) (flags cluster.Flags, seen *[]string) {
	seen = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const list = "/apis/networking.istio.io/v1/namespaces/shop/gateways"
		const object = list + "/front"
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet {
			*seen = append(*seen, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+strings.TrimSpace(string(body)))
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/networking.istio.io/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"networking.istio.io/v1","resources":[{"name":"gateways","kind":"Gateway"}]}`)
		case r.URL.Path == list:
			fmt.Fprintf(w, `{"items":[`+front+`]}`, *version)
		case r.URL.Path == object && r.Method == http.MethodPatch && r.URL.Query().Get("force") != "true":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"details":{"causes":[`+
				`{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\"","field":".spec.selector.a"}]}}`)
		case r.URL.Path == object && r.Method == http.MethodPut && !strings.Contains(string(body), fmt.Sprintf(`"resourceVersion":"%d"`, *version)):
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
		case r.URL.Path == object:
			fmt.Fprintf(w, front, *version)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"clusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\n", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster.Flags{Kubeconfig: file}, seen
}

// TestObjects: objects are read without the fields that the server writes, applied by the server, replaced and deleted only in the version
// that the change was made of, and conflicts say what to do.
func TestObjects(t *testing.T) {
	flags, seen := server(t)
	c, err := kube.Open(flags)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, key := t.Context(), config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}
	item, there, err := c.Get(ctx, key)
	if err != nil || !there || item.Revision != 7 || item.Key != key || strings.Contains(string(item.Text), "managedFields") ||
		strings.Contains(string(item.Text), "status") {
		t.Fatalf("%+v %v %v", item, there, err)
	}
	if _, there, err := c.Get(ctx, config.Key{Kind: config.Gateway, Namespace: "shop", Name: "none"}); there || err != nil {
		t.Error(there, err)
	}
	if _, _, err := c.Get(ctx, config.Key{Kind: config.Sidecar, Namespace: "shop", Name: "none"}); !errors.Is(err, cluster.ErrNoKind) {
		t.Error(err)
	}
	if _, _, err := c.Get(ctx, config.Key{Kind: config.MeshConfig}); err == nil || !strings.Contains(err.Error(), "ConfigMap") {
		t.Error(err)
	}
	items, err := c.List(ctx, []config.Kind{config.Gateway, config.Sidecar}, "shop")
	if err != nil || len(items) != 1 {
		t.Error(items, err)
	}
	text := []byte("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: front, namespace: shop}\n")
	_, err = c.Commit(ctx, []store.Change{{Key: key, Text: text, Was: 7}})
	if err == nil || !strings.Contains(err.Error(), `other writers have set spec.selector.a (conflict with "kubectl")`) ||
		!strings.Contains(err.Error(), "--force-conflicts") {
		t.Error(err)
	}
	c.Force = true
	if _, err = c.Commit(ctx, []store.Change{{Key: key, Text: text, Was: 7}}); err != nil {
		t.Error(err)
	}
	if now := c.Written(key); now.Revision != 7 || now.Key != key {
		t.Error(now)
	}
	c.Replace = true
	if _, err = c.Commit(ctx, []store.Change{{Key: key, Text: text, Was: 7}}); err != nil {
		t.Error(err)
	}
	_, err = c.Commit(ctx, []store.Change{{Key: key, Text: text, Was: 6}})
	if err == nil || !strings.Contains(err.Error(), "changed by somebody else: it is in resourceVersion 7") {
		t.Error(err)
	}
	if _, err = c.Commit(ctx, []store.Change{{Key: key, Was: 7}}); err != nil {
		t.Error(err)
	}
	if len(*seen) != 5 || !strings.Contains((*seen)[0], "application/apply-patch+yaml") || !strings.Contains((*seen)[1], "force=true") ||
		!strings.Contains((*seen)[4], `"preconditions":{"resourceVersion":"7"}`) {
		t.Errorf("%q", *seen)
	}
	var sent map[string]any
	if _, body, _ := strings.Cut((*seen)[2], "json "); json.Unmarshal([]byte(body), &sent) != nil {
		t.Errorf("not JSON: %s", (*seen)[2])
	}
}

// TestStatusesDoNotConflict: an object is written although its status has changed since it was read.
func TestStatusesDoNotConflict(t *testing.T) {
	version := 7
	flags, seen := serverAt(t, &version)
	c, err := kube.Open(flags)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Replace = true
	key := config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}
	item, _, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	version = 9
	if last, err := c.Commit(t.Context(), []store.Change{{Key: key, Text: item.Text, Was: item.Revision}}); err != nil || last != 9 {
		t.Error(last, err)
	}
	if len(*seen) != 2 {
		t.Errorf("%q", *seen)
	}
}
