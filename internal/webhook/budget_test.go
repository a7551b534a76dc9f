package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config"
	"fairway/internal/inject"
)

func newHandlers(t *testing.T, o Options) *Handlers {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Decoder, o.Registry, o.Log = decoder, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	return New(o)
}

func posted(t *testing.T, ctx context.Context, path string) *http.Request {
	t.Helper()
	q := &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: "shop"}
	q.Kind.Version, q.Kind.Kind = "v1", "Pod"
	q.Object.Raw = []byte(`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"web","image":"web"}]}}`)
	review := admissionv1.AdmissionReview{Request: q}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	raw, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// TestWorkThatTakesLong: a review that takes too long, or whose caller leaves, is answered at once, without a verdict. Its place stays
// taken until the work has noticed, and is then free again.
func TestWorkThatTakesLong(t *testing.T) {
	for name, leaves := range map[string]bool{"too long": false, "the caller leaves": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHandlers(t, Options{Injector: func() (*inject.Injector, error) { return nil, nil }})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if leaves {
					time.AfterFunc(time.Second, leave)
				}
				ended, began := make(chan struct{}), time.Now()
				err := h.do(posted(t, ctx, "/inject"), func(ctx context.Context) {
					defer close(ended)
					<-ctx.Done()
					time.Sleep(time.Minute) // a step that nothing interrupts
				})
				want := workWithin
				if leaves {
					want = time.Second
				}
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "not done within") || took != want {
					t.Errorf("%v after %v", err, took)
				}
				if h.work.Used() != 1 {
					t.Error("the place is given away while the work goes on")
				}
				<-ended
				synctest.Wait()
				if h.work.Used() != 0 {
					t.Error("the place is not given back")
				}
			})
		})
	}
}

// TestPanicsOfWork: a panic in the work becomes the page's, as it would without a goroutine of its own, and frees the place.
func TestPanicsOfWork(t *testing.T) {
	h := newHandlers(t, Options{})
	func() {
		defer func() {
			if why := recover(); why != "a fault" {
				t.Errorf("%v", why)
			}
		}()
		_ = h.do(posted(t, t.Context(), "/inject"), func(context.Context) { panic("a fault") })
	}()
	if h.work.Used() != 0 {
		t.Error("the place is not given back")
	}
}
