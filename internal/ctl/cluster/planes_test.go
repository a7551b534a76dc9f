package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/ctl/cluster"
)

// TestPlanesOfOtherProducts: beside an istiod, which has the same label, only the project's control planes are asked.
func TestPlanesOfOtherProducts(t *testing.T) {
	const (
		ours      = `{"app": "istiod", "app.kubernetes.io/part-of": "fairway", "istio.io/rev": "next"}`
		unnamed   = `{"app": "istiod"}`
		istiod    = `{"app": "istiod", "app.kubernetes.io/part-of": "istio"}`
		olderOnes = `{"app": "istiod", "operator.istio.io/component": "Pilot"}`
	)
	for _, c := range []struct {
		pods                 map[string]string
		planes, others, says string
	}{
		{map[string]string{"a": ours, "b": ours}, "a b", "", ""},
		{map[string]string{"a": istiod, "b": ours, "c": olderOnes}, "b", "a (istio), c (istio)", ""},
		{map[string]string{"a": istiod, "b": unnamed}, "b", "a (istio)", ""},
		{map[string]string{"a": istiod, "c": olderOnes}, "", "a (istio), c (istio)", "of other products: a (istio), c (istio)"},
		{nil, "", "", "no control plane runs in namespace istio-system"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var items []string
			for _, name := range []string{"a", "b", "c"} {
				if labels, has := c.pods[name]; has {
					items = append(items, fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "istio-system", "labels": %s}}`, name, labels))
				}
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "items": [%s]}`, strings.Join(items, ","))
		}))
		reach, err := cluster.Open(cluster.Flags{Kubeconfig: kubeconfig(t, s.URL), Namespace: "istio-system"})
		if err != nil {
			t.Fatal(err)
		}
		planes, err := reach.Planes(t.Context())
		var names []string
		for _, p := range planes {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.planes || (err == nil) != (c.says == "") {
			t.Errorf("%v: planes %q, error %v; want %q", c.pods, got, err, c.planes)
		}
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want %q", c.pods, err, c.says)
		}
		if got := strings.Join(reach.Others(), ", "); got != c.others {
			t.Errorf("%v: others %q, want %q", c.pods, got, c.others)
		}
		s.Close()
	}
}

// kubeconfig writes a kubeconfig of an API server, and returns its path.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"clusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\n", server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
