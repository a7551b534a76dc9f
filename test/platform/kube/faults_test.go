package kube_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/test/platform/kube/cluster"
)

// A storm of 429, 500, 503, answers that are cut off and answers that are nonsense: at the start it is waited out, later
// nothing is lost by it; and nothing half read is ever handed over.
func TestStorms(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod+"---"+webRule)
	var raging, calm atomic.Bool
	var mu sync.Mutex
	tries := map[string]int{}
	w := start(t, c.Between(t, func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		at := r.URL.Path + r.URL.Query().Get("watch")
		tries[at]++
		if calm.Load() || tries[at] > 5 && !raging.Load() {
			return false
		}
		worse(w, tries[at])
		return true
	}))
	w.phase(t, "synced", "")
	w.holding(t, webRuleKey, "seconds:3")
	w.holding(t, podKey, "10.3.0.1")
	held := w.keeps()

	raging.Store(true)
	c.StopServer() // all watches end, and meet the storm
	w.phase(t, "stale", "")
	c.StartServer(t)
	if diff := cmp.Diff(held, w.keeps()); diff != "" {
		t.Errorf("a storm changed rows:\n%s", diff)
	}
	c.Apply(t, strings.ReplaceAll(webRule, "3s", "4s"))
	calm.Store(true)
	begun := time.Now()
	w.holding(t, webRuleKey, "seconds:4")
	w.phase(t, "synced", "")
	t.Logf("synced %s after the storm", time.Since(begun))
}

// worse is one of several bad answers.
func worse(w http.ResponseWriter, n int) {
	codes := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	switch n % 5 {
	case 0: // a list or an event that ends in the middle
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"meta`))
	case 1: // not the requested content
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>a proxy's page"))
	default:
		http.Error(w, "busy", codes[n%5-2])
	}
}

// If the token of the next page has expired meanwhile, the kind is read in one answer.
func TestPagesAreForgotten(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, shop)
	const services = 501
	at(t, services, func(i int) error {
		_, err := c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/shop/services", "application/json",
			fmt.Appendf(nil, `{"metadata":{"name":"s-%d"},"spec":{"ports":[{"port":80}]}}`, i))
		return err
	})
	var refused, whole atomic.Int32
	w := watch(t, c.Between(t, func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if !strings.HasSuffix(r.URL.Path, "/services") || q.Has("watch") {
			return false
		}
		if !q.Has("limit") {
			whole.Add(1)
		}
		if !q.Has("continue") {
			return false
		}
		refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`))
		return true
	}))
	n := 0
	for key := range w.keeps() {
		if strings.HasPrefix(key, "service s-") {
			n++
		}
	}
	if n != services || refused.Load() != 1 || whole.Load() != 1 || w.lists("Service") != 1 {
		t.Errorf("%d services after %d refusals and %d lists without pages", n, refused.Load(), whole.Load())
	}
	w.holding(t, "service s-"+strconv.Itoa(services-1)+".shop.svc.cluster.local shop/s-"+strconv.Itoa(services-1)+" Kubernetes/east", ":80")
}
