package relay

import "github.com/prometheus/client_golang/prometheus"

// Collector returns the relay's metrics: resources from the control plane and from the cache, and how often the control plane was lost.
// Those that count the same as metrics of Istio's agent have their names.
func (r *Relay) Collector() prometheus.Collector { return collector{r} }

// collector turns the relay's state into metrics.
type collector struct{ relay *Relay }

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The metrics, in the order of Describe.
var (
	streamsDesc   = described("xds_relay_streams", "Envoy's streams.")
	connectedDesc = described("xds_relay_connected", "Streams to the control plane.")
	reconnects    = described("xds_relay_reconnects_total", "Streams to the control plane that ended while Envoy's went on.")
	resources     = described("xds_relay_resources_total", "Resources that came from the control plane.", "type")
	cached        = described("xds_relay_cached_resources_total", "Resources that Envoy was given from the cache.", "type")
	refused       = described("xds_relay_refused_total", "Responses that Envoy did not take.", "type")
	bytesDesc     = described("xds_relay_bytes_total", "Bytes of responses from the control plane.", "type")
	cacheBytes    = described("xds_relay_cache_bytes", "Size of the cache's file.")
	requests      = described("xds_proxy_requests", "Envoy's requests for configuration.")
	responses     = described("xds_proxy_responses", "Responses from the control plane.")
	unreached     = described("istiod_connection_failures", "Failed attempts to reach the control plane.")
	upstreamEnds  = described("istiod_connection_terminations",
		"Streams to the control plane that ended, by type: cancelled (in the ordinary way), error.", "type")
	envoyEnds = described("envoy_connection_terminations",
		"Envoy's streams that ended, by type: cancelled (in the ordinary way), error.", "type")
)

// Describe is Prometheus's.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		streamsDesc, connectedDesc, reconnects, resources, cached, refused, bytesDesc, cacheBytes,
		requests, responses, unreached, upstreamEnds, envoyEnds,
	} {
		out <- d
	}
}

// Collect is Prometheus's.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.relay.Status()
	c.relay.mu.Lock()
	n := c.relay.counts // types is not read
	c.relay.mu.Unlock()
	connected, streams, answers := 0, 0, 0
	for _, session := range s.Sessions {
		if !session.Alone {
			streams++
		}
		if session.Connected {
			connected++
		}
	}
	gauge := func(d *prometheus.Desc, value int) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	counter := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(streamsDesc, streams)
	gauge(connectedDesc, connected)
	counter(reconnects, s.Reconnects)
	for _, t := range s.Types {
		answers += t.Responses
		counter(resources, t.Resources, t.Type)
		counter(cached, t.Cached, t.Type)
		counter(refused, t.Refused, t.Type)
		counter(bytesDesc, int(t.Bytes), t.Type)
	}
	if s.Cache != nil {
		gauge(cacheBytes, int(s.Cache.Bytes))
	}
	counter(requests, n.requests)
	counter(responses, answers)
	counter(unreached, n.unreached)
	counter(upstreamEnds, n.upstream.cancelled, "cancelled")
	counter(upstreamEnds, n.upstream.failed, "error")
	counter(envoyEnds, n.downstream.cancelled, "cancelled")
	counter(envoyEnds, n.downstream.failed, "error")
}
