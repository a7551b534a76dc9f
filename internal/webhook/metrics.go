package webhook

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config"
	"fairway/internal/spelling"
)

// metrics have Istio's names.
type metrics struct {
	requests, successes, failures, skips, unread prometheus.Counter
	took                                         prometheus.Histogram
	passed, failed                               *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := metrics{
		requests:  counter("sidecar_injection_requests_total", "Admission reviews at /inject."),
		successes: counter("sidecar_injection_success_total", "Reviews of pods that got a proxy, or had it."),
		failures:  counter("sidecar_injection_failure_total", "Pods that cannot be injected as requested, and invalid reviews."),
		skips:     counter("sidecar_injection_skip_total", "Reviews of pods that are not changed, and of objects that are not new pods."),
		unread:    counter("galley_validation_http_error", "Requests at /validate that are no admission review."),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sidecar_injection_time_seconds", Help: "How long the answer to a review of a pod takes.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5},
		}),
		passed: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "galley_validation_passed", Help: "Objects that say what their kind may."},
			[]string{"group", "version", "resource"}),
		failed: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "galley_validation_failed", Help: "Objects that were refused."},
			[]string{"group", "version", "resource", "reason"}),
	}
	r.MustRegister(m.requests, m.successes, m.failures, m.skips, m.unread, m.took, m.passed, m.failed)
	return m
}

// injected counts the answer for a pod.
func (m metrics) injected(has bool, err error, took time.Duration) {
	m.took.Observe(took.Seconds())
	switch {
	case err != nil:
		m.failures.Inc()
	case has:
		m.successes.Inc()
	default:
		m.skips.Inc()
	}
}

// validated counts a verdict; an empty reason: the object was allowed.
func (m metrics) validated(q *admissionv1.AdmissionRequest, reason string) {
	group, version, resource := labels(q)
	if reason == "" {
		m.passed.WithLabelValues(group, version, resource).Inc()
		return
	}
	m.failed.WithLabelValues(group, version, resource, reason).Inc()
}

// labels returns the group, version and resource of a review if they are known words: a stranger must not create series.
func labels(q *admissionv1.AdmissionRequest) (group, version, resource string) {
	const other = "other"
	group, version, resource = other, other, other
	for _, kind := range config.Kinds() {
		if spelling.Plural(strings.ToLower(string(kind))) == q.Resource.Resource {
			resource = q.Resource.Resource
		}
	}
	switch q.Resource.Group {
	case "networking.istio.io", "security.istio.io", "telemetry.istio.io", "extensions.istio.io":
		group = q.Resource.Group
	}
	switch q.Resource.Version {
	case "v1", "v1beta1", "v1alpha1", "v1alpha3":
		version = q.Resource.Version
	}
	return group, version, resource
}
