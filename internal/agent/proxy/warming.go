package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/warming"
	report "fairway/internal/envoy/warming"
	"fairway/internal/xdstype"
)

// newWarming makes the part that reports Envoy's warming listeners and clusters; nil if Envoy cannot be asked, or if there is no
// relay that carries reports.
func (a *agent) newWarming() *warming.Watcher {
	if a.relay == nil || a.admin == nil {
		return nil
	}
	return warming.New(warming.Options{Stats: a.admin.Stats, Report: a.reportWarming, Log: a.log})
}

// warmingOf returns the watcher of a type of resources; nil: they do not warm, or are not watched.
func (a *agent) warmingOf(typ string) *warming.Watcher {
	if typ == xdstype.ListenerURL || typ == xdstype.ClusterURL {
		return a.warming
	}
	return nil
}

func (a *agent) reportWarming(now report.Report) {
	a.warms.Store(int64(now.Listeners + now.Clusters))
	r := relay.Report{Type: report.ReportType}
	if text := now.Encode(); text != "" {
		r.Failure = &statuspb.Status{Code: int32(codes.Unavailable), Message: text}
	}
	if err := a.relay.Report(r); err != nil {
		a.log.Error("the control plane is not told what warms", "error", err)
	}
}

func (a *agent) warmingMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "envoy_resources_warming", Help: "Envoy's listeners and clusters that have not warmed, as reported last.",
		},
		func() float64 { return float64(a.warms.Load()) },
	)
}
