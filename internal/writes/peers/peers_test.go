package peers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"fairway/internal/kubeclient"
	"fairway/internal/mesh"
	"fairway/internal/writes/work"
)

func report(t *testing.T) *work.Report {
	missing := func(string, []mesh.Problem) { t.Error("a right is missing") }
	return work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), missing)
}

// If there are more control planes than are read, the rest are left out; the text of one is withdrawn when its Lease is deleted.
func TestHeardControlPlanes(t *testing.T) {
	texts := map[string]string{}
	take := func(by, text string) error {
		if texts[by] = text; text == "nonsense" {
			texts[by] = ""
		}
		if texts[by] == "" {
			delete(texts, by)
		}
		if text == "nonsense" {
			return errors.New("it cannot be read")
		}
		return nil
	}
	l := &listening{own: "istio-test-own", known: map[string]*peerState{}, o: Options{
		Task: "test", Prefix: "istio-test-", Report: report(t), OnText: take,
	}}
	now := map[string]lease{"istio-test-own": {"1", "a"}, "other": {"1", "a"}, "istio-test-": {"1", "nonsense"}}
	for n := range mostLeases + 20 {
		now[fmt.Sprintf("istio-test-%03d", n)] = lease{"1", "a"}
	}
	at := time.Now()
	l.look(t.Context(), now, at)
	if _, own := texts["istio-test-own"]; own || texts["istio-test-000"] != "a" || len(texts) != mostLeases-1 {
		t.Errorf("the texts are %v", texts)
	}
	delete(now, "istio-test-000")
	now["istio-test-001"] = lease{"2", ""}
	l.look(t.Context(), now, at.Add(aliveFor-time.Second))
	if texts["istio-test-000"] != "" || texts["istio-test-001"] != "" || texts["istio-test-002"] != "a" {
		t.Errorf("the texts are %v", texts)
	}
}

// TestMissingNamespace: an API server that knows no Lease and takes none is asked twice, and then not before the next tick.
func TestMissingNamespace(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	defer server.Close()
	clients, err := kubeclient.Open(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := New(Options{
		Leases: clients, Namespace: "none", Identity: "one", Task: "test", Prefix: "istio-test-", Marked: "m", Report: report(t),
	})
	for n := 0; n == 0 || len(w.news) > 0; n++ {
		if len(w.news) > 0 {
			<-w.news
		}
		if err = w.keep(t.Context(), "text"); n > 3 {
			t.Fatalf("it does not stop; it asked %d times", asked)
		}
	}
	if err == nil || asked != 3 {
		t.Errorf("it asked %d times, and ended with %v", asked, err)
	}
}
