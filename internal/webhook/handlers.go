package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	meshconfig "istio.io/api/mesh/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config"
	"fairway/internal/inject"
	"fairway/internal/limit"
	"fairway/internal/printable"
	"fairway/internal/webhook/place"
)

// Options are the parts that compute the answers. All but Injector must be set.
type Options struct {
	// Injector returns the injector in force. An error: there is none yet, and the API server is to ask again. Nil: nothing is injected
	// here.
	Injector func() (*inject.Injector, error)
	// ProxyConfigs returns the settings of ProxyConfig resources that reach pods of a namespace with labels, as inject.Request has them.
	// They reach only callers that show a key that Known accepts. Nil: there are none.
	ProxyConfigs func(namespace string, labels map[string]string) (wide, own []*meshconfig.ProxyConfig)
	// Known reports whether a caller that shows a key in its path may be an API server; the key may be empty. An error: the keys are
	// not known yet, and the API server is to ask again. Nil: it never may.
	Known func(key string) (bool, error)
	// Keyed reports whether API servers show keys. Then proxyMetadata of the mesh configuration, too, reaches only callers that show a key
	// that Known accepts. Nil: they show none.
	Keyed func() bool
	// Configured reports whether the mesh has any ProxyConfig resource. Nil: it has none.
	Configured func() bool
	// LastTurn returns the last turn of the control plane, for warnings and the log. Nil: it is not known.
	LastTurn func() uint64
	Decoder  *config.Decoder
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Handlers answer reviews. Many goroutines may use one.
type Handlers struct {
	options Options
	metrics metrics
	limiter *rate.Limiter
	left    atomic.Int64 // refusals that were not logged
	large   *limit.Seats[netip.Prefix]
	work    *limit.Seats[netip.Prefix]
}

// Bounds on logged refusals, a second and at once: strangers may cause them.
const (
	logged = 2
	burst  = 10
)

// New returns handlers that register their metrics in the registry.
func New(o Options) *Handlers {
	return &Handlers{
		options: o, metrics: newMetrics(o.Registry), limiter: rate.NewLimiter(logged, burst),
		large: limit.NewSeats[netip.Prefix](mostLarge, mostLarge/2, mostWaiting),
		work:  limit.NewSeats[netip.Prefix](mostAtWork, mostAtWork-1, mostWaiting),
	}
}

// Paths returns the paths of the pages, and of everything below them. Servers give their requests seats of their own (web.Options.Apart).
func Paths() []string { return []string{"/inject", "/validate"} }

// Register adds the pages.
func (h *Handlers) Register(mux *http.ServeMux) {
	if h.options.Injector != nil {
		mux.HandleFunc("/inject", h.inject)
		mux.HandleFunc("/inject/", h.inject)
	}
	mux.HandleFunc("/validate", h.validate)
	mux.HandleFunc("/validate/", h.validate)
}

// refused logs that an object or a request was refused.
func (h *Handlers) refused(r *http.Request, q *admissionv1.AdmissionRequest, err error) {
	if !h.limiter.Allow() {
		h.left.Add(1)
		return
	}
	object := ""
	if q != nil {
		object = q.Kind.Kind + " " + q.Namespace + "/" + q.Name
	}
	h.options.Log.Warn(
		"admission refused",
		"page", printable.Text(shownPath(r.URL.Path), printable.Short),
		"address", r.RemoteAddr,
		"object", printable.Text(object, printable.Short),
		"error", printable.Text(err.Error(), printable.Long),
		"turn", h.lastTurn(),
		"notLogged", h.left.Swap(0),
	)
}

// inject answers with the patch that puts a proxy into a pod.
func (h *Handlers) inject(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	h.metrics.requests.Inc()
	q, err := h.read(w, r, mostObject)
	if err != nil {
		h.metrics.failures.Inc()
		h.refuse(w, r, err)
		return
	}
	if !isNewPod(q) {
		h.metrics.skips.Inc()
		answer(w, q, allowed())
		return
	}
	injector, err := h.options.Injector()
	if err != nil {
		h.metrics.failures.Inc()
		h.refuse(w, r, refuse(http.StatusServiceUnavailable, "pods cannot be injected yet: %v", err))
		return
	}
	at, _ := place.Parse(r.URL.Path)
	known, err := h.known(at.Key)
	if err != nil {
		h.metrics.failures.Inc()
		h.refuse(w, r, refuse(http.StatusServiceUnavailable, "pods cannot be injected yet: %v", err))
		return
	}
	var out injection
	if busy := h.do(r, func(ctx context.Context) { out = h.injected(ctx, injector, q, at, known) }); busy != nil {
		h.metrics.failures.Inc()
		h.refuse(w, r, busy)
		return
	}
	a, err := out.answer, out.err
	h.metrics.injected(out.has, err, time.Since(began))
	if err != nil {
		h.refused(r, q, err)
		a = forbidden("the pod cannot get the proxy that it asks for: " + err.Error())
	}
	answer(w, q, a)
}

// refuse answers a request that is not a review.
func (h *Handlers) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var why *refusal
	if errors.As(err, &why) {
		status = why.status
	}
	h.refused(r, nil, err)
	w.Header().Set("Connection", "close") // does not wait for the rest of the body
	http.Error(w, err.Error(), status)
}

// isNewPod reports whether a pod is being created: an existing pod cannot be injected.
func isNewPod(q *admissionv1.AdmissionRequest) bool {
	return q.Operation == admissionv1.Create && q.SubResource == "" && len(q.Object.Raw) > 0 &&
		q.Kind.Group == "" && q.Kind.Version == "v1" && q.Kind.Kind == "Pod"
}

// known reports whether a caller gets the settings of ProxyConfig resources.
func (h *Handlers) known(key string) (bool, error) {
	if h.options.Known == nil {
		return false, nil
	}
	return h.options.Known(key)
}

// shownPath returns a path for the log, without its key.
func shownPath(path string) string {
	if at, ok := place.Parse(path); ok && at.Key != "" {
		return place.WithKey(path, "")
	}
	return path
}
