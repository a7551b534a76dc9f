package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestTelemetry runs testdata/telemetry in a mesh with providers, and reads the log that one of its scripts makes proxies write.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw %t", sotw), func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "access.log")
			m := live.Start(t, live.Options{MeshConfig: rig.Text(t, "telemetry.txtar:config", rig.Pairs("log", log))})
			m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
			m.Backends(t, "logged")
			m.Apply(t, m.Rules(t, "telemetry.txtar:logged"))
			wantServer(t, live.Send(t, from(m, "logged.test")), "logged")
			r := from(m, "logged.test")
			r.Path = "/missing"
			live.Send(t, with(r, "x-do", "status=404"))
			rig.Eventually(t, func() error { // Envoy writes its log by and by
				text, err := os.ReadFile(log)
				if err != nil {
					return err
				}
				if !strings.Contains(string(text), `{"code":404,"path":"/missing"}`) {
					return fmt.Errorf("the access log lacks the request that failed: %s", text)
				}
				if strings.Contains(string(text), `"code":200`) {
					t.Fatalf("the access log has what the filter leaves out: %s", text)
				}
				return nil
			})
			m.Delete(t, "Telemetry istio-system/logged")
			scripts(t, m, sotw, "testdata/telemetry")
		})
	}
}
