package counted

import (
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are the counters of one agent. The zero value is ready; any goroutine may use it.
type Counts struct {
	Unreadable atomic.Int64 // reads of files that failed

	mu               sync.Mutex // guards the rest
	requests, failed int        // to the authority
	took             time.Duration
}

// Request counts a request to the authority.
func (c *Counts) Request(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.took += took
	if err != nil {
		c.failed++
	}
}

// Source is what the metrics are made of.
type Source struct {
	Counts    *Counts
	Authority bool                              // an authority issues the workload's certificate
	Ends      func(yield func(string, float64)) // calls yield with each certificate's name and the seconds until it ends
	Own       func(name string) bool            // reports whether rules do not name it
}

// requestType is the only type of request that is counted: agents ask no token server.
const requestType = "csr"

// mostNames bounds the certificates that are shown: authors of rules may name many files.
const mostNames = 50

var (
	expiry = prometheus.NewDesc("cert_expiry_seconds",
		"Seconds until a certificate ends, by resource_name: default (the workload's own), ROOTCA (of the roots the first that ends), "+
			"file-cert:… and file-root:… (files that rules name; the first 50). Negative: it has ended.", []string{"resource_name"}, nil)
	outgoing = prometheus.NewDesc("num_outgoing_requests", "Requests for a certificate to the certificate authority.",
		[]string{"request_type"}, nil)
	failing = prometheus.NewDesc("num_failed_outgoing_requests", "Requests for a certificate that failed.", []string{"request_type"}, nil)
	latency = prometheus.NewDesc("outgoing_latency", "Milliseconds that all requests for a certificate took together.",
		[]string{"request_type"}, nil)
	unreadable = prometheus.NewDesc("num_file_secret_failures_total", "Reads of certificates, keys and roots from files that failed.",
		nil, nil)
)

// Describe is Prometheus's.
func (s Source) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{expiry, outgoing, failing, latency, unreadable} {
		out <- d
	}
}

// Collect is Prometheus's.
func (s Source) Collect(out chan<- prometheus.Metric) {
	named := 0
	s.Ends(func(name string, left float64) {
		own := s.Own(name)
		if !own && named == mostNames || !utf8.ValidString(name) {
			return
		}
		if !own {
			named++
		}
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, left, name)
	})
	c := s.Counts
	c.mu.Lock()
	requests, failed, took := c.requests, c.failed, c.took
	c.mu.Unlock()
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	if s.Authority {
		counter(outgoing, float64(requests), requestType)
		counter(failing, float64(failed), requestType)
		counter(latency, float64(took.Milliseconds()), requestType)
	}
	counter(unreadable, float64(c.Unreadable.Load()))
}
