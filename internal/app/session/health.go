package session

import (
	"context"
	"net"
	"net/netip"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/xds"
)

// HealthType is the type URL of the requests in which Istio's agents report the health of their application. A request with an
// error_detail says that the application fails, and why.
const HealthType = "type.googleapis.com/istio.v1.HealthInformation"

// maxDetail is how much of an agent's words is kept.
const maxDetail = 512

// reportedHealth is an agent's last health report. It counts while the proxy is connected and for a grace period after that, so
// that a short interruption of the stream changes nothing. An agent sends its report again on each new stream; if it does not do so
// within the grace period, it has stopped to check.
type reportedHealth struct {
	received bool
	report   mesh.HealthReport
	until    time.Time // when it is forgotten; zero: never
}

// Healthy takes an agent's report; the stream it came by is open.
func (p *Register) Healthy(r xds.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[mesh.ProxyID(r.Proxy)]
	if c == nil || c.proxy.Standing == mesh.Unproven {
		return // reports in plaintext from another machine do not count
	}
	p.metrics.Health(!r.Failed)
	report := mesh.HealthReport{Proxy: c.proxy, From: ipOf(c.from), Healthy: !r.Failed, Detail: printable.Lines(r.Detail, maxDetail)}
	c.health = reportedHealth{received: true, report: report}
	p.schedule(c)
	p.graph.In.Health.Set(report.Proxy.ID, report)
}

// ipOf is the IP address that a stream comes from; the zero Addr for one within this process.
func ipOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// expectHealth gives the agent of a proxy that has come or gone the time to say again how its application is. The lock
// is held; schedule is to follow.
func (p *Register) expectHealth(c *connected) {
	if !c.health.received {
		return
	}
	c.health.until = time.Now().Add(p.opts.Grace)
}

// forgetHealth: nothing is known of the application any more. The lock is held.
func (p *Register) forgetHealth(c *connected) {
	if !c.health.received {
		return
	}
	id := c.health.report.Proxy.ID
	c.health = reportedHealth{}
	p.graph.In.Health.Delete(id)
}

// AwaitReports marks in the graph, once, that every agent had the time to report the health of its application, and to register its
// machine again: wait after synced is closed. Without a wait that was marked before the first turn.
func (p *Register) AwaitReports(ctx context.Context, synced <-chan struct{}, wait time.Duration) error {
	select {
	case <-synced:
	case <-ctx.Done():
		return nil
	}
	defer p.Expire()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.graph.In.HealthReady.Set(struct{}{}, true)
	case <-ctx.Done():
	}
	return nil
}
