package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/agent/health"
)

// TestProbeIsResolved: a readiness probe comes by the mesh's file, PROXY_CONFIG or the annotation, and has the agent
// speak to the control plane itself.
func TestProbeIsResolved(t *testing.T) {
	t.Chdir(t.TempDir())
	mesh := filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(
		mesh,
		[]byte("defaultConfig: {readinessProbe: {httpGet: {path: /ok, port: 80}, periodSeconds: 3}}\n"),
		0o644,
	); err != nil {
		t.Fatal(err)
	}
	env := Environment{Hostname: "host", Addresses: []string{"10.1.1.1"}, Vars: map[string]string{}}
	f := unset()
	o, err := Resolve(f, env)
	if err != nil || o.Health != nil || o.Relay != nil {
		t.Errorf("without a probe: %v, %v, %v", o.Health, o.Relay, err)
	}
	f.MeshConfig = mesh
	if o, err = Resolve(
		f,
		env,
	); err != nil || o.Health == nil || o.Health.String() != "httpGet http://10.1.1.1:80/ok" || o.Relay == nil ||
		o.Relay.Secure {
		t.Errorf("the mesh's: %v, %+v, %v", o.Health, o.Relay, err)
	}
	env.Vars["PROXY_CONFIG"] = `{readinessProbe: {exec: {command: [check, shop]}}}`
	if o, err = Resolve(f, env); err != nil || o.Health.String() != "exec check shop" {
		t.Errorf("PROXY_CONFIG's: %v, %v", o.Health, err)
	}
	f.XDSRelay = "false"
	if _, err = Resolve(f, env); ExitCode(err) != 2 || !strings.Contains(err.Error(), "--xdsRelay: without the relay nobody hears") {
		t.Errorf("without the relay: %v", err)
	}
	f.XDSRelay, env.Vars["PROXY_CONFIG"] = "", `{readinessProbe: {tcpSocket: {}}}`
	if _, err = Resolve(
		f,
		env,
	); ExitCode(err) != 2 ||
		!strings.Contains(err.Error(), "readinessProbe: tcpSocket.port: 0; want 1 to 65535") {
		t.Errorf("without a port: %v", err)
	}
}

// TestProbeIsTakenUp: what a reload finds is how the application is checked from then on; a probe that comes or goes is
// told to need a new agent.
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
	o := Options{Health: parse(1)}
	a := &agent{o: o, log: slog.New(slog.NewTextHandler(&log, nil))}
	a.health = health.New(health.Options{Probe: o.Health, Log: a.log})
	a.reprobe(parse(2))
	if got := a.health.Status().Probe; got != "tcpSocket localhost:2" || strings.Contains(log.String(), "start the agent anew") {
		t.Errorf("%s\n%s", got, &log)
	}
	a.reprobe(nil)
	if got := a.health.Status().Probe; got != "tcpSocket localhost:2" || !strings.Contains(log.String(), "start the agent anew") {
		t.Errorf("taken away: %s\n%s", got, &log)
	}
}
