// Package tally counts events under the names of Istio's metrics: what API servers tell, what becomes of registered machines and of
// Secrets that name clusters, and writes of webhooks. Each event is counted where it happens. It must not know pages, nor rows.
// Start reading at Tally.
package tally

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/admin/bounded"
)

// Tally has the counters. Any goroutine may call its methods.
type Tally struct {
	config, registry, errors *prometheus.CounterVec
	secrets                  *prometheus.CounterVec
	registered, updated      prometheus.Counter
	unregistered, removed    prometheus.Counter
	queued                   prometheus.Histogram

	clusters bounded.Set // that have a series
}

// Events are the values of the label event.
const (
	Add    = "add"
	Update = "update"
	Delete = "delete"
)

// New makes the counters, and registers them with the gauges that say what runs. version is the program's.
func New(r prometheus.Registerer, version string) *Tally {
	began := time.Now()
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	t := &Tally{
		config: counters("pilot_k8s_cfg_events", "Events of watches of rules in Kubernetes clusters, by kind and event.", "type", "event"),
		registry: counters("pilot_k8s_reg_events",
			"Events of watches of Services, EndpointSlices, Pods, Nodes and Namespaces, by kind and event.", "type", "event"),
		errors: counters("controller_sync_errors_total",
			"Lists and watches of Kubernetes clusters that failed, by cluster; they are tried again.", "cluster"),
		secrets: counters("remote_cluster_secret_events_total",
			"Clusters that Secrets began to name, name differently or name no more, by event.", "event"),
		registered:   counter("auto_registration_success_total", "Machines that registered themselves."),
		updated:      counter("auto_registration_updates_total", "Registered machines whose entry changed."),
		unregistered: counter("auto_registration_unregister_total", "Registered machines whose proxy left."),
		removed:      counter("auto_registration_deletes_total", "Entries of registered machines that were removed."),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pilot_proxy_queue_time", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 3, 5, 10, 20, 30},
			Help: "Seconds from the publication of a change until a response with it began to be sent to a proxy.",
		}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "istio_build", Help: "Version of this control plane, as the label tag.",
	}, []string{"component", "tag"})
	build.WithLabelValues("pilot", version).Set(1)
	r.MustRegister(t.queued, build, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "istiod_uptime_seconds", Help: "Seconds since this control plane started.",
	}, func() float64 { return time.Since(began).Seconds() }))
	return t
}

// registryKinds are the kinds that pilot_k8s_reg_events counts, and their names there.
var registryKinds = map[string]string{
	"Service": "Services", "EndpointSlice": "EndpointSlice", "Pod": "Pods", "Node": "Nodes", "Namespace": "Namespaces",
}

// Event counts an event of a watch. Kinds and events are words of this program.
func (t *Tally) Event(kind, event string) {
	if name, ok := registryKinds[kind]; ok {
		t.registry.WithLabelValues(name, event).Inc()
		return
	}
	t.config.WithLabelValues(kind, event).Inc()
}

// Failed counts a list or watch of a cluster that failed.
func (t *Tally) Failed(cluster string) { t.errors.WithLabelValues(t.clusters.Label(cluster)).Inc() }

// Secret counts a cluster that a Secret began to name, names differently or names no more.
func (t *Tally) Secret(event string) { t.secrets.WithLabelValues(event).Inc() }

// Machine counts what became of a registered machine. A machine that goes leaves no entry behind.
func (t *Tally) Machine(event string) {
	switch event {
	case Add:
		t.registered.Inc()
	case Update:
		t.updated.Inc()
	case Delete:
		t.unregistered.Inc()
		t.removed.Inc()
	}
}

// Queued observes how long a change waited until a response with it was sent.
func (t *Tally) Queued(d time.Duration) {
	if d > 0 {
		t.queued.Observe(d.Seconds())
	}
}
