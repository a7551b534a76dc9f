package admin

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fairway/internal/admin/asked"
	"fairway/internal/admin/scrape"
	"fairway/internal/admin/tally"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// Metrics are the counters of one control plane, on a registry of their own. All methods are safe for concurrent use.
type Metrics struct {
	Registry *prometheus.Registry

	work atomic.Uint64

	pushes      *prometheus.CounterVec
	resources   *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	sizes       *prometheus.HistogramVec
	rejects     *prometheus.CounterVec
	timeouts    prometheus.Counter
	internal    prometheus.Counter
	convergence prometheus.Histogram
	sendTime    *prometheus.HistogramVec
	pushTime    *prometheus.HistogramVec
	triggers    *prometheus.CounterVec
	turns       prometheus.Counter
	turnTime    prometheus.Histogram
	contextTime prometheus.Histogram
	rows        prometheus.Counter
	changed     prometheus.Counter
	startup     prometheus.Gauge
	health      *prometheus.CounterVec
	unreadable  prometheus.Gauge
	diverged    *prometheus.CounterVec
	compared    prometheus.Counter
	doors
	// Questions counts questions. It implements questions.Meter.
	Questions asked.Meter
	refusals  *prometheus.CounterVec
	*tally.Tally

	keysFetched, keysFailed prometheus.Counter
}

// NewMetrics makes the counters. version is the program's version. Watch adds the metrics that are counted at each scrape.
func NewMetrics(version string) *Metrics {
	fine := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3, 5, 10, 20, 30}
	m := &Metrics{
		Registry:  prometheus.NewRegistry(),
		pushes:    counters("pilot_xds_pushes", "Responses sent over xDS, by type.", "type"),
		resources: counters("fairway_xds_sent_resources_total", "Resources sent and removals told over xDS, by type.", "type"),
		bytes:     counters("fairway_xds_sent_bytes_total", "Bytes of responses sent over xDS before HTTP/2 framing, by type.", "type"),
		sizes: histograms("pilot_xds_config_size_bytes", "Distribution of the sizes of responses sent.",
			[]float64{1, 10000, 1000000, 4000000, 10000000, 40000000}, "type"),
		rejects:  counters("pilot_total_xds_rejects", "Responses that proxies refused, by type.", "type"),
		timeouts: counter("pilot_xds_write_timeout", "Streams cut because the proxy did not read."),
		internal: counter("pilot_total_xds_internal_errors", "Rows that kept their old value because computing them failed."),
		convergence: histogram("pilot_proxy_convergence_time",
			"Seconds from the publication of a change to its acknowledgement by a proxy.", fine),
		sendTime: histograms("pilot_xds_send_time", "Seconds that sending a response took, by type.", fine, "type"),
		pushTime: histograms("pilot_xds_push_time",
			"Seconds that a response took until the transport had it, by type; its resources were made before, once for all proxies.",
			fine, "type"),
		triggers: counters("pilot_push_triggers", "Turns that changed something for proxies, by cause.", "type"),
		turns:    counter("fairway_turns_total", "Turns of the graph."),
		turnTime: histogram("fairway_turn_seconds", "Seconds a turn took, publishing included.", fine),
		contextTime: histogram("pilot_pushcontext_init_seconds",
			"Seconds it took to bring all tables up to date with a change: a turn, under Istio's name.", fine),
		rows:    counter("fairway_rows_recomputed_total", "Rows recomputed in all turns."),
		changed: counter("fairway_rows_changed_total", "Rows that came out different in all turns."),
		startup: gauge("startup_duration_seconds", "Seconds from start to the first complete configuration."),
		health: counters("fairway_health_reports_total",
			"Health reports of agents about their applications, by state: healthy, unhealthy.", "state"),
		keysFetched: counter("pilot_jwks_resolver_network_fetch_success_total", "Times that an issuer of tokens gave its keys."),
		keysFailed:  counter("pilot_jwks_resolver_network_fetch_fail_total", "Times that an issuer of tokens did not give its keys."),
		unreadable:  gauge("fairway_source_unreadable", "Files and folders of rules that cannot be read; what they held stays in force."),
		diverged: counters("fairway_audit_divergence_total",
			"Differences from the tables that the audit found and mended, by where: stream, shelf, attachment, row.", "of"),
		compared: counter("fairway_audit_compared_total", "Streams that the audit compared with the tables."),
		refusals: counters("fairway_page_refusals_total",
			"Requests for debug pages that were refused, by reason: plaintext, credentials, namespace, site.", "reason"),
	}
	for _, reason := range []string{refusedPlaintext, refusedCredentials, refusedNamespace, refusedSite} {
		m.refusals.WithLabelValues(reason)
	}
	for _, of := range []string{string(library.OfStream), string(library.OfShelf), string(library.OfAttachment), OfRow} {
		m.diverged.WithLabelValues(of)
	}
	m.doors = newDoors(m.Registry)
	m.Questions = asked.NewMeter(m.Registry)
	m.Tally = tally.New(m.Registry, version)
	m.register(version)
	return m
}

// register registers the counters, and metrics of the program's version, process and runtime.
func (m *Metrics) register(version string) {
	info := gauges("pilot_info", "Version of this control plane.", "version")
	info.WithLabelValues(version).Set(1)
	m.Registry.MustRegister(m.pushes, m.resources, m.bytes, m.sizes, m.rejects, m.timeouts, m.internal, m.convergence, m.sendTime,
		m.pushTime, m.triggers, m.turns, m.turnTime, m.contextTime, m.rows, m.changed, m.startup, m.health, m.unreadable,
		m.keysFetched, m.keysFailed, m.diverged, m.compared, m.refusals, info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Watch has state counted at each scrape. It is called once, before the first scrape.
func (m *Metrics) Watch(s scrape.State) { scrape.Register(m.Registry, s) }

// OfRow is the label of a difference in a row; the other labels are a library.Place.
const OfRow = "row"

// Diverged counts differences that the audit found, by where they are.
func (m *Metrics) Diverged(of string, n int) { m.diverged.WithLabelValues(of).Add(float64(n)) }

// Compared counts a stream that the audit compared.
func (m *Metrics) Compared() { m.compared.Inc() }

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Work returns a number that grows with every turn, response and stream: while it stays equal, nothing happens.
func (m *Metrics) Work() uint64 { return m.work.Load() }

// Connected notes that a proxy connected or disconnected. The number of proxies is counted at each scrape.
func (m *Metrics) Connected() { m.work.Add(1) }

// pageRefused counts a request for a debug page that was refused.
func (m *Metrics) pageRefused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// Sent counts one response.
func (m *Metrics) Sent(typeURL string, resources, bytes int, took time.Duration) {
	m.work.Add(1)
	t := xdstype.Label(typeURL)
	m.pushes.WithLabelValues(t).Inc()
	m.resources.WithLabelValues(t).Add(float64(resources))
	m.bytes.WithLabelValues(t).Add(float64(bytes))
	m.sizes.WithLabelValues(t).Observe(float64(bytes))
	m.sendTime.WithLabelValues(t).Observe(took.Seconds())
	m.pushTime.WithLabelValues(t).Observe(took.Seconds())
}

// Converged observes how long after its turn a change was acknowledged.
func (m *Metrics) Converged(d time.Duration) { m.convergence.Observe(d.Seconds()) }

// Rejected counts a refusal.
func (m *Metrics) Rejected(typeURL string) {
	m.rejects.WithLabelValues(xdstype.Label(typeURL)).Inc()
}

// Health counts an agent's report about its application.
func (m *Metrics) Health(healthy bool) {
	state := "unhealthy"
	if healthy {
		state = "healthy"
	}
	m.work.Add(1)
	m.health.WithLabelValues(state).Inc()
}

// WriteTimeout counts a stream that was cut because the proxy did not read.
func (m *Metrics) WriteTimeout() { m.timeouts.Inc() }

// InternalErrors counts rows that an error inside the control plane kept back.
func (m *Metrics) InternalErrors(n int) { m.internal.Add(float64(n)) }

// Turn observes one turn.
func (m *Metrics) Turn(recomputed, changed int, took time.Duration) {
	m.work.Add(1)
	m.turns.Inc()
	m.rows.Add(float64(recomputed))
	m.changed.Add(float64(changed))
	m.turnTime.Observe(took.Seconds())
	m.contextTime.Observe(took.Seconds())
}

// Trigger counts a turn that changed something for proxies.
func (m *Metrics) Trigger(cause string) { m.triggers.WithLabelValues(cause).Inc() }

// Started sets how long the start took.
func (m *Metrics) Started(d time.Duration) { m.startup.Set(d.Seconds()) }

// KeysFetched counts an attempt to fetch the keys of an issuer of requests' tokens.
func (m *Metrics) KeysFetched(ok bool) {
	if ok {
		m.keysFetched.Inc()
	} else {
		m.keysFailed.Inc()
	}
}

// Unreadable sets how many files and folders of rules cannot be read.
func (m *Metrics) Unreadable(n int) { m.unreadable.Set(float64(n)) }
