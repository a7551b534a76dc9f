package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/admin"
	"fairway/internal/admin/page"
)

// TestTooManyQuestions: a caller with too many questions learns when to ask again, as does one with a question that waits for too long.
// Other pages are answered meanwhile, and other callers next.
func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := admin.NewMetrics("v1")
		going := make(chan struct{})
		pages := (&admin.Pages{
			Metrics: m, Questions: atOnce(m), Ready: func() error { return nil },
			Live: func(admin.LiveQuestion) page.Live { <-going; return page.Live{State: page.LiveYes} },
		}).Handler()
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://localhost"+path, nil)
			r.RemoteAddr = "127.0.0.1:9"
			pages.ServeHTTP(w, r)
			return w
		}
		const question = "/debug/livez?turn=1"
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for range 1 + 128 {
			all.Go(func() {
				w := ask(question)
				mu.Lock()
				defer mu.Unlock()
				codes[w.Code]++
				if w.Code == http.StatusServiceUnavailable &&
					(w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "ask again")) {
					t.Errorf("late: %v %s", w.Header(), w.Body)
				}
			})
		}
		synctest.Wait()
		if w := ask(question); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if w := ask("/ready"); w.Code != http.StatusOK {
			t.Errorf("/ready: %d", w.Code)
		}
		time.Sleep(time.Minute) // the first one takes that long
		close(going)
		all.Wait()
		if codes[http.StatusServiceUnavailable] != 129 {
			t.Errorf("answers %v, want 129 times 503: one was too slow, 128 too late", codes)
		}
		if w := ask(question); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "live") {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}
