package hooks

import (
	"github.com/prometheus/client_golang/prometheus"
)

// meter counts writes of configurations under Istio's names. Only the queue's goroutine uses it. Names are those of configurations with the
// label of this revision, which only administrators make.
type meter struct {
	attempts, failures, retries *prometheus.CounterVec
	updates, errors             prometheus.Counter
	failed                      map[string]bool // by name: the last try failed
}

func newMeter(r prometheus.Registerer) *meter {
	counters := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"name"})
		r.MustRegister(c)
		return c
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	return &meter{
		attempts: counters("webhook_patch_attempts_total",
			"Patches of webhook configurations that were tried, by name of the configuration."),
		failures: counters("webhook_patch_failures_total", "Patches of webhook configurations that failed."),
		retries:  counters("webhook_patch_retries_total", "Patches of webhook configurations that were tried again after a failure."),
		updates:  counter("galley_validation_config_updates", "Patches of ValidatingWebhookConfigurations that succeeded."),
		errors:   counter("galley_validation_config_update_error", "Patches of ValidatingWebhookConfigurations that failed."),
		failed:   map[string]bool{},
	}
}

// patched counts a patch and its result.
func (m *meter) patched(n named, err error) {
	m.attempts.WithLabelValues(n.name).Inc()
	if m.failed[n.String()] {
		m.retries.WithLabelValues(n.name).Inc()
	}
	if err == nil {
		delete(m.failed, n.String())
	} else {
		m.failed[n.String()] = true
		m.failures.WithLabelValues(n.name).Inc()
	}
	switch {
	case !n.validates:
	case err == nil:
		m.updates.Inc()
	default:
		m.errors.Inc()
	}
}
