package telemetry

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/envoy/listener"
)

// counted maps the metrics of Telemetry to their names (MetricSelector.IstioMetric). Stock Envoy does not count messages of gRPC.
var counted = map[telemetryv1alpha1.MetricSelector_IstioMetric]string{
	telemetryv1alpha1.MetricSelector_REQUEST_COUNT:          "requests_total",
	telemetryv1alpha1.MetricSelector_REQUEST_DURATION:       "request_duration_milliseconds",
	telemetryv1alpha1.MetricSelector_REQUEST_SIZE:           "request_bytes",
	telemetryv1alpha1.MetricSelector_RESPONSE_SIZE:          "response_bytes",
	telemetryv1alpha1.MetricSelector_TCP_OPENED_CONNECTIONS: "tcp_connections_opened_total",
	telemetryv1alpha1.MetricSelector_TCP_CLOSED_CONNECTIONS: "tcp_connections_closed_total",
	telemetryv1alpha1.MetricSelector_TCP_SENT_BYTES:         "tcp_sent_bytes_total",
	telemetryv1alpha1.MetricSelector_TCP_RECEIVED_BYTES:     "tcp_received_bytes_total",
}

// label matches the name of a metric's label (https://prometheus.io/docs/concepts/data_model/).
var label = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// maxTags limits the labels that Telemetries add to one metric, because each is in every listener and in every series.
const maxTags = 100

// metrics returns the metrics that differ from the default. If providers are set, by default or by a Telemetry, and none in force is
// Prometheus, it sets who to NoReporter.
func (t *resolver) metrics(who *listener.Reporter) map[string]listener.Metric {
	inForce, said := t.mesh.Defaults.GetMetrics(), t.mesh.Defaults != nil
	for _, l := range t.levels {
		var own []string
		for _, e := range l.GetMetrics() {
			own = append(own, names(e.GetProviders())...)
		}
		if len(own) > 0 {
			inForce, said = own, true
		}
	}
	if said && !slices.ContainsFunc(inForce, t.prometheus) {
		*who = listener.NoReporter
		return nil
	}
	out := map[string]listener.Metric{}
	for level, l := range t.levels {
		for i, e := range l.GetMetrics() {
			if list := names(e.GetProviders()); len(list) > 0 && !slices.ContainsFunc(list, t.prometheus) {
				continue
			}
			for j, o := range e.GetOverrides() {
				if t.means(o.GetMatch().GetMode()) {
					t.override(out, level, place("metrics", i, "overrides["+strconv.Itoa(j)+"]"), o)
				}
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, m listener.Metric) bool { return !m.Off && len(m.Tags) == 0 && len(m.Without) == 0 })
	return out
}

// prometheus reports whether a provider scrapes the proxies' metrics.
func (t *resolver) prometheus(name string) bool {
	_, is := t.mesh.Providers[name].GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Prometheus)
	return is
}

func (t *resolver) override(into map[string]listener.Metric, level int, field string, o *telemetryv1alpha1.MetricsOverrides) {
	list := listener.Metrics[:]
	switch m := o.GetMatch().GetMetricMatch().(type) {
	case *telemetryv1alpha1.MetricSelector_Metric:
		if m.Metric == telemetryv1alpha1.MetricSelector_ALL_METRICS {
			break
		}
		name, ok := counted[m.Metric]
		if !ok {
			t.note(level, field+".match", "metric "+m.Metric.String()+" is not counted: stock Envoy cannot", "")
			return
		}
		list = []string{name}
	case *telemetryv1alpha1.MetricSelector_CustomMetric:
		t.note(level, field+".match", "there is no metric "+strconv.Quote(m.CustomMetric), "name one of Istio's standard metrics")
		return
	}
	for _, name := range list {
		m := into[name]
		if v := o.GetDisabled(); v != nil {
			m.Off = v.GetValue()
		}
		for _, tag := range slices.Sorted(maps.Keys(o.GetTagOverrides())) {
			t.tag(&m, level, field, tag, o.GetTagOverrides()[tag])
		}
		into[name] = m
	}
}

// tag changes one label of a metric.
func (t *resolver) tag(m *listener.Metric, level int, field, name string, o *telemetryv1alpha1.MetricsOverrides_TagOverride) {
	field += ".tagOverrides." + name
	if !label.MatchString(name) {
		t.note(level, field, strconv.Quote(name)+" is not a name of a label", "write letters, digits and _")
		return
	}
	without := slices.Index(m.Without, name)
	if o.GetOperation() == telemetryv1alpha1.MetricsOverrides_TagOverride_REMOVE {
		delete(m.Tags, name)
		if without < 0 {
			m.Without = append(m.Without, name)
		}
		return
	}
	value, err := Value(o.GetValue())
	if err != nil {
		t.note(level, field+".value", "the label is left as it was, for its expression: "+err.Error(), "write it with what Envoy knows")
		return
	}
	if without >= 0 {
		m.Without = slices.Delete(m.Without, without, without+1)
	}
	if _, has := m.Tags[name]; !has && len(m.Tags) >= maxTags {
		if !t.full {
			t.note(level, field, "a metric may get "+strconv.Itoa(maxTags)+" labels: this one and those after it are left out",
				"add fewer labels")
		}
		t.full = true
		return
	}
	if m.Tags == nil {
		m.Tags = map[string]string{}
	}
	m.Tags[name] = value
}
