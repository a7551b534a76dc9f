package admin

import "github.com/prometheus/client_golang/prometheus"

// doors counts refused callers, and panics in answers to the others.
type doors struct {
	refused *prometheus.CounterVec
	panics  prometheus.Counter
}

func newDoors(r prometheus.Registerer) doors {
	d := doors{
		refused: counters("fairway_xds_refused_total",
			"Streams of xDS that were not let in, or ended for what they asked, by reason.", "reason"),
		panics: counter("fairway_panics_total",
			"Panics that ended one stream, call or page each. Each is in the log with its stack, and is an error of this program."),
	}
	r.MustRegister(d.refused, d.panics)
	return d
}

// Refused counts a stream of xDS that was refused. The reason is one of a few words, never a client's.
func (d doors) Refused(reason string) { d.refused.WithLabelValues(reason).Inc() }

// Panicked counts a panic that ended one stream, call or page.
func (d doors) Panicked() { d.panics.Inc() }
