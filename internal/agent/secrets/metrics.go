package secrets

import (
	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/agent/secrets/counted"
)

// Collector returns the metrics of certificates.
func (s *Secrets) Collector() prometheus.Collector {
	return counted.Source{
		Counts: &s.counts, Authority: s.opts.Authority != nil,
		Own: func(name string) bool { return name == DefaultName || name == RootName },
		Ends: func(yield func(string, float64)) {
			for _, c := range s.Status() {
				if !c.NotAfter.IsZero() {
					yield(c.Name, c.NotAfter.Sub(s.opts.Now()).Seconds())
				}
			}
		},
	}
}
