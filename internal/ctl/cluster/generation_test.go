package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
)

// TestGeneration: the newest version that the API server has is asked for metadata alone.
func TestGeneration(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/networking.istio.io/v1beta1":
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"networking.istio.io/v1beta1","resources":[`+
				`{"name":"virtualservices/status","kind":"VirtualService"},{"name":"virtualservices","kind":"VirtualService"}]}`)
		case "/apis/networking.istio.io/v1beta1/namespaces/shop/virtualservices/reviews":
			if r.Header.Get("Accept") == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1" {
				fmt.Fprint(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"reviews","generation":7}}`)
			}
		case "/apis/networking.istio.io/v1beta1/namespaces/bank/virtualservices/reviews":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	defer s.Close()
	reach, err := cluster.Open(cluster.Flags{Kubeconfig: kubeconfig(t, s.URL)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  config.Key
		want int64
		bad  bool
	}{
		{config.Key{Kind: config.VirtualService, Namespace: "shop", Name: "reviews"}, 7, false},
		{config.Key{Kind: config.VirtualService, Namespace: "shop", Name: "none"}, 0, false},
		{config.Key{Kind: config.VirtualService, Namespace: "bank", Name: "reviews"}, 0, true},
		{config.Key{Kind: config.Telemetry, Namespace: "shop", Name: "none"}, 0, false},
		{config.Key{Kind: config.MeshConfig}, 0, false},
	} {
		got, err := reach.Generation(t.Context(), c.key)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%v: generation %d, %v; want %d", c.key, got, err, c.want)
		}
	}
}
