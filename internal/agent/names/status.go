package names

import "github.com/prometheus/client_golang/prometheus"

// counts are the metrics, under the names that Istio's agent has for them.
type counts struct {
	requests, mesh, hits, refused, local, upstream, failures prometheus.Counter
	duration                                                 prometheus.Histogram
}

func newCounts() *counts {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "dns_" + name, Help: help})
	}
	return &counts{
		requests: counter("requests_total", "DNS questions of the workload."),
		mesh:     counter("mesh_answers_total", "Questions that were answered from the mesh's names."),
		hits:     counter("cache_hits_total", "Questions that were answered from the cache."),
		refused:  counter("refused_total", "Questions that were refused because too many wait for name servers."),
		local: counter("local_addresses_refused_total",
			"Addresses of this machine or its link that a name server gave, and that were left out of its answer."),
		upstream: counter("upstream_requests_total", "Questions to name servers."),
		failures: counter("upstream_failures_total", "Questions that a name server did not answer, or with a failure."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dns_upstream_request_duration_seconds",
			Help:    "How long name servers take.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10),
		}),
	}
}

// Collectors returns the server's metrics.
func (s *Server) Collectors() []prometheus.Collector {
	c := s.counts
	return []prometheus.Collector{c.requests, c.mesh, c.hits, c.refused, c.local, c.upstream, c.failures, c.duration}
}

// Status is the visible state of a server; it is made for JSON.
type Status struct {
	Listen      string   `json:"listen"`
	TableFilled bool     `json:"heard"`   // the table has been filled
	Servers     []string `json:"servers"` // name servers for names outside of the mesh
	Search      []string `json:"search"`
	Error       string   `json:"error,omitempty"` // why resolv.conf is not in force
	Cached      int      `json:"cached"`
	Names       []Name   `json:"names"`
}

// Status returns the server's state.
func (s *Server) Status() Status {
	out := Status{Listen: s.o.Listen, Cached: s.forward.cache.size(), Names: s.table.Names(), Servers: []string{}, Search: []string{}}
	select {
	case <-s.table.first:
		out.TableFilled = true
	default:
	}
	f := s.forward
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Servers, out.Search = append(out.Servers, f.servers...), append(out.Search, f.domains...)
	if f.failed != nil {
		out.Error = f.failed.Error()
	}
	return out
}
