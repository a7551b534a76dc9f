package proxy

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"fairway/internal/agent/health"
	"fairway/internal/agent/relay"
)

// healthType is the type of the requests in which Istio's agents report the application's health to the control plane; an
// error_detail means that it fails, and says why.
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// newHealth makes the part that checks the application and reports to the control plane; nil if there is no probe.
func (a *agent) newHealth(p *health.Probe) *health.Checker {
	if p == nil || a.relay == nil {
		return nil
	}
	return health.New(health.Options{Probe: p, Proxy: a.reasons, Report: a.reportHealth, Log: a.log})
}

// replaceProbe checks the application by the current configuration. To start or to end the checks takes a new agent: metrics, and
// maybe the relay, come and go with them.
func (a *agent) replaceProbe(p *health.Probe) {
	switch {
	case a.health != nil && p != nil:
		a.health.Replace(p)
	case (a.o.Health == nil) != (p == nil):
		a.log.Warn("readinessProbe was added or taken away: start the agent anew to have the application checked accordingly")
	}
}

// reportHealth has the relay report the health now, and on each new stream to the control plane.
func (a *agent) reportHealth(healthy bool, why string) {
	r := relay.Report{Type: healthType}
	if !healthy {
		r.Failure = &statuspb.Status{Code: int32(codes.Internal), Message: strings.ToValidUTF8(why, "")}
	}
	if err := a.relay.Report(r); err != nil {
		a.log.Error("the control plane is not told of the application's health", "error", err)
	}
	if a.o.Reported != nil {
		a.o.Reported(healthy)
	}
}

// reportStopping reports to the control plane that this workload is about to stop, if its health is reported at all, so that
// clients leave it out while it drains.
func (a *agent) reportStopping() {
	if a.health != nil {
		a.health.ReportStopping("draining: the proxy is about to be stopped")
	}
}

func (a *agent) healthMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "application_healthy", Help: "Whether the last health report was healthy: 1, else 0."},
		func() float64 {
			if a.health.Status().State == "healthy" {
				return 1
			}
			return 0
		},
	)
}
