package kube_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/source/kube"
	"fairway/test/platform/kube/cluster"
)

// A connection hangs: no byte comes, and it stays open. The source gets no signal: it finds out by itself, keeps its rows, reports it, and
// continues where it was.
func TestConnectionHangs(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+webRule)
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1") // client-go's, as PING: the defaults are 30 and 15
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	gate := c.Gate(t)
	w := watch(t, c.Config(t, gate, "reader", "system:masters"), func(o *kube.Options) { o.AnswerTime = time.Second })
	w.holding(t, webRuleKey, "seconds:3")
	held := w.keeps()
	gate.Freeze()
	begun := time.Now()
	w.phase(t, "stale", "")
	t.Logf("it is noticed after %s", time.Since(begun))
	c.Apply(t, strings.ReplaceAll(webRule, "3s", "5s"))
	c.Delete(t, webPod)
	if diff := cmp.Diff(held, w.keeps()); diff != "" {
		t.Errorf("a connection that hangs changed rows:\n%s", diff)
	}
	gate.Thaw()
	begun = time.Now()
	w.holding(t, webRuleKey, "seconds:5")
	w.holding(t, podKey, "")
	w.phase(t, "synced", "")
	t.Logf("all is right %s after bytes come again", time.Since(begun))
	if n := w.lists("Pod") + w.lists("VirtualService"); n != 2 {
		t.Errorf("kinds that could go on were listed again: %d lists", n)
	}
}

// A proxy in between keeps the connection alive, but the events of a watch do not arrive, or its answer never begins. No ping finds that.
func TestWatchIsSilent(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webRule)
	var begins atomic.Bool
	var silent atomic.Int32 // how many watches are to be silent
	caught := make(chan struct{})
	w := watch(t, c.Between(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/virtualservices") || !r.URL.Query().Has("watch") || silent.Add(-1) < 0 {
			return false
		}
		if begins.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		caught <- struct{}{}
		<-r.Context().Done()
		return true
	}), func(o *kube.Options) { o.AnswerTime, o.WatchTime = time.Second, time.Second })
	w.holding(t, webRuleKey, "seconds:3")
	for _, begun := range []bool{true, false} {
		begins.Store(begun)
		silent.Store(1)
		<-caught
		timeout := map[bool]string{true: "5", false: "6"}[begun]
		c.Apply(t, strings.ReplaceAll(webRule, "3s", timeout+"s"))
		w.holding(t, webRuleKey, "seconds:"+timeout)
		w.phase(t, "synced", "")
	}
	if n := w.lists("VirtualService"); n != 1 {
		t.Errorf("there were %d lists", n)
	}
	if !strings.Contains(w.log.String(), "the API server does not answer") {
		t.Error("nobody was told that an answer did not begin")
	}
}
