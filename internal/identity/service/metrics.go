package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/identity/ca"
)

// Metrics counts under the names that Istio's authority has. A nil *Metrics counts nothing.
type Metrics struct {
	requests, refused, unparsed, misidentified, issued prometheus.Counter
	unsigned, limited                                  *prometheus.CounterVec
}

// NewMetrics registers the counters, and the ends of the authority's certificates, which are read at each scrape.
func NewMetrics(to prometheus.Registerer, authority *ca.CA, now func() time.Time) (*Metrics, error) {
	m := &Metrics{
		requests:      counter("citadel_server_csr_count", "Certificate requests that arrived."),
		refused:       counter("citadel_server_authentication_failure_count", "Requests from callers that could not be authenticated."),
		unparsed:      counter("citadel_server_csr_parsing_err_count", "Requests that were no proper CSR."),
		misidentified: counter("citadel_server_id_extraction_err_count", "Requests that asked for somebody else's identity."),
		issued:        counter("citadel_server_success_cert_issuance_count", "Certificates issued."),
		unsigned: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "citadel_server_csr_sign_err_count",
			Help: "Requests that were not signed, by error."}, []string{"error"}),
		limited: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "fairway_ca_limited_total", Help: "Requests beyond a rate limit, by limit."},
			[]string{"limit"}),
	}
	ends := func(name, help string, value func(ca.Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(authority.Status()) })
	}
	unix := func(t time.Time) float64 {
		if t.IsZero() { // the root is not known yet
			return 0
		}
		return float64(t.Unix())
	}
	left := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return t.Sub(now()).Seconds()
	}
	first := func(s ca.Status) (ends time.Time) {
		if len(s.Roots) > 0 {
			ends = s.Roots[0].NotAfter
		}
		return ends
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.refused, m.unparsed, m.misidentified, m.issued, m.unsigned, m.limited,
		ends("citadel_server_root_cert_expiry_timestamp", "Unix time when the root certificate expires.",
			func(s ca.Status) float64 { return unix(first(s)) }),
		ends("citadel_server_root_cert_expiry_seconds", "Seconds until the root certificate ends.",
			func(s ca.Status) float64 { return left(first(s)) }),
		ends("citadel_server_cert_chain_expiry_timestamp", "Unix time when the signing certificate expires.",
			func(s ca.Status) float64 { return unix(s.Signs.NotAfter) }),
		ends("citadel_server_cert_chain_expiry_seconds", "Seconds until the signing certificate ends.",
			func(s ca.Status) float64 { return left(s.Signs.NotAfter) }),
		ends("fairway_ca_revoked", "Certificates that the CRLs name.", func(s ca.Status) (n float64) {
			for _, l := range s.Lists {
				n += float64(l.Revoked)
			}
			return n
		}),
		ends("fairway_ca_crl_expiry_timestamp",
			"Unix time when the first CRL expires; then proxies refuse every certificate of its issuer; 0: none does.",
			func(s ca.Status) (first float64) {
				for _, l := range s.Lists {
					if at := unix(l.NextUpdate); !l.NextUpdate.IsZero() && (first == 0 || at < first) {
						first = at
					}
				}
				return first
			}),
		ends("fairway_ca_roots", "Trusted roots; more than one while a root is replaced.",
			func(s ca.Status) float64 { return float64(len(s.Roots)) }),
	} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *Metrics) decided(d decision, err error) {
	if m == nil {
		return
	}
	m.requests.Inc()
	if err == nil {
		m.issued.Inc()
		return
	}
	switch d.step {
	case authentication:
		m.refused.Inc()
	case parsing:
		m.unparsed.Inc()
	case idExtraction:
		m.misidentified.Inc()
	case limits:
		what := "identity"
		if d.caller.By == "" {
			what = "address"
		}
		m.limited.WithLabelValues(what).Inc()
	case signing:
		label := "CERT_GEN_ERROR"
		if status.Code(err) == codes.InvalidArgument {
			label = "TTL_ERROR"
		}
		m.unsigned.WithLabelValues(label).Inc()
	}
}
