package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/agent/health"
	"fairway/internal/agent/settings"
)

// TestProbeIsTakenUp: after a reload the application is checked by the new probe; if a probe is added or removed, the log says that
// this needs a new agent.
func TestProbeIsTakenUp(t *testing.T) {
	parse := func(port uint32) *health.Probe {
		p, err := health.Parse(
			&networking.ReadinessProbe{
				HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: port}},
			},
			"",
		)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var log bytes.Buffer
	o := settings.Options{Health: parse(1)}
	a := &agent{o: o, log: slog.New(slog.NewTextHandler(&log, nil))}
	a.health = health.New(health.Options{Probe: o.Health, Log: a.log})
	a.replaceProbe(parse(2))
	if got := a.health.Status().Probe; got != "tcpSocket localhost:2" || strings.Contains(log.String(), "start the agent anew") {
		t.Errorf("%s\n%s", got, &log)
	}
	a.replaceProbe(nil)
	if got := a.health.Status().Probe; got != "tcpSocket localhost:2" || !strings.Contains(log.String(), "start the agent anew") {
		t.Errorf("taken away: %s\n%s", got, &log)
	}
}
