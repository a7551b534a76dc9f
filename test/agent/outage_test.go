package agent

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
)

// serial is that of the workload's certificate as the agent tells it, and what went wrong when another one was asked for.
func (p *proxy) serial(t *testing.T) (serial, failed string) {
	t.Helper()
	for _, c := range p.facts(t).Certificates {
		if c.Name == "default" {
			return c.Serial, c.Error
		}
	}
	return "", ""
}

// TestAnOutageAndAReboot: a machine starts again while the control plane, and with it the authority, is away. Its proxy
// serves with the certificate that it kept, is hot-restarted, and goes on after its agent is killed. When the control
// plane is back, a new certificate replaces the kept one.
func TestAnOutageAndAReboot(t *testing.T) {
	app := startApplication(t)
	v := newVictims(t, func(m *live.Mesh) string { return serving(t, m, "web", app) })
	v.connected()
	kept, _ := v.agent.serial(t)
	v.plane.Kill()
	envoy := v.agent.facts(t).Envoys.Serving
	v.agent.Kill()
	if err := syscall.Kill(envoy.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	v.agent = launch(t, v.setup)
	v.agent.ready(t)
	t.Logf("ready %s after the reboot", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if serial, _ := v.agent.serial(t); serial != kept || kept == "" {
		t.Errorf("serves with %q, kept was %q", serial, kept)
	}
	load := gather(t, v.Addr("web", 8080), v.Addr("web", 8081), "web.test", v.Addr("web", 9000))
	v.agent.wantOK(t, "/hot-restart")
	v.agent.await(t, "hot-restarted", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 && f.Envoys.Draining == nil })

	v.agent.Kill()
	load.more(t, 200)
	v.agent = launch(t, v.setup)
	v.agent.ready(t)
	v.agent.await(t, "adopted", func(f facts) bool { return f.Ready && f.Envoys.Starts == 0 })
	v.agent.wantOK(t, "/hot-restart")
	v.agent.await(t, "hot-restarted again", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 && f.Envoys.Draining == nil })
	if serial, failed := v.agent.serial(t); serial != kept || failed == "" {
		t.Errorf("serves with %q (%s), kept was %q", serial, failed, kept)
	}

	v.startPlane()
	v.agent.await(t, "another certificate", func(f facts) bool {
		for _, c := range f.Certificates {
			if c.Name == "default" && c.Serial != kept && c.Error == "" {
				return true
			}
		}
		return false
	})
	v.connected()
	load.stop(t)
	v.agent.ends(t)
}

// TestAKeptCertificateOfAnother: a certificate in OUTPUT_CERTS that is another workload's is not served.
func TestAKeptCertificateOfAnother(t *testing.T) {
	v := newVictims(t, func(m *live.Mesh) string { return inbound(t, m, "web", application{1, 2}) })
	v.connected()
	v.agent.ends(t)
	v.plane.Kill()
	v.setup.env = []string{"SERVICE_ACCOUNT=admin", "PROV_CERT=./certificates", "OUTPUT_CERTS=./certificates"}
	v.agent = launch(t, v.setup)
	v.agent.await(t, "refused", func(facts) bool { return strings.Contains(v.agent.Log.String(), "service account is admin") })
	if code, _, err := v.agent.call(http.MethodGet, "/healthz/ready"); err == nil && code == http.StatusOK {
		t.Error("ready with another's certificate")
	}
	if _, err := os.Stat(filepath.Join(v.setup.dir, "certificates", "key.pem")); err != nil {
		t.Error(err)
	}
}
