package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProbeIsResolved: a readiness probe comes by the mesh's file, PROXY_CONFIG or the annotation, and has the agent
// speak to the control plane itself.
func TestProbeIsResolved(t *testing.T) {
	t.Chdir(t.TempDir())
	mesh := filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(mesh, []byte("defaultConfig: {readinessProbe: {httpGet: {path: /ok, port: 80}, periodSeconds: 3}}\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	env := Environment{Hostname: "host", Addresses: []string{"10.1.1.1"}, Vars: map[string]string{}}
	f := unset()
	o, err := Resolve(f, env)
	if err != nil || o.Health != nil || o.Relay != nil {
		t.Errorf("without a probe: %v, %v, %v", o.Health, o.Relay, err)
	}
	f.MeshConfig = mesh
	if o, err = Resolve(f,
		env); err != nil || o.Health == nil || o.Health.String() != "httpGet http://10.1.1.1:80/ok" || o.Relay == nil ||
		o.Relay.Secure {
		t.Errorf("the mesh's: %v, %+v, %v", o.Health, o.Relay, err)
	}
	env.Vars["PROXY_CONFIG"] = `{readinessProbe: {exec: {command: [check, shop]}}}`
	if o, err = Resolve(f, env); err != nil || o.Health.String() != "exec check shop" {
		t.Errorf("PROXY_CONFIG's: %v, %v", o.Health, err)
	}
	f.XDSRelay = "false"
	if _, err = Resolve(f, env); !isMistake(err) || !strings.Contains(err.Error(), "--xdsRelay: only the relay reports") {
		t.Errorf("without the relay: %v", err)
	}
	f.XDSRelay, env.Vars["PROXY_CONFIG"] = "", `{readinessProbe: {tcpSocket: {}}}`
	if _, err = Resolve(f, env); !isMistake(err) ||
		!strings.Contains(err.Error(), "readinessProbe: tcpSocket.port: 0; want 1 to 65535") {
		t.Errorf("without a port: %v", err)
	}
}
