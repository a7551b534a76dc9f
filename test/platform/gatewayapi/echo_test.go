package gatewayapi_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fairway/test/rig"
)

// TestEcho has the client call the server, without a cluster: over HTTP, HTTPS and gRPC.
func TestEcho(t *testing.T) {
	if testing.Short() {
		t.Skip("two programs are built")
	}
	plain, secure, calls := rig.FreePort(t), rig.FreePort(t), rig.FreePort(t)
	rig.Launch(t, rig.Command{
		Name: "echo", Path: echo.Path(t), Env: []string{"HOSTNAME=echo-v1-7"}, Args: []string{
			fmt.Sprint("--port=", plain), fmt.Sprint("--port=", secure), fmt.Sprint("--tls=", secure), fmt.Sprint("--grpc=", calls),
			"--crt=/missing.crt", "--key=/missing.key",
		},
	})
	ask := func(line string) (out string) {
		rig.Eventually(t, func() error {
			text, err := exec.CommandContext(t.Context(), client.Path(t), strings.Fields(line)...).CombinedOutput()
			if out = string(text); err != nil {
				return fmt.Errorf("client %s: %w: %s", line, err, out)
			}
			return nil
		})
		return out
	}
	for line, want := range map[string][]string{
		fmt.Sprintf("http://localhost:%d/a?b=c --method=PUT -H Host:shop -H a:1 -H a:2", plain): {
			"Host=shop", "Method=PUT", "Proto=HTTP/1.1", "URL=/a?b=c", "RequestHeader=A:1", "RequestHeader=A:2",
		},
		fmt.Sprintf("https://localhost:%d", secure):      {fmt.Sprint("ServicePort=", secure), "Method=GET"},
		fmt.Sprintf("grpc://localhost:%d -H a:1", calls): {fmt.Sprint("Host=localhost:", calls), "Proto=GRPC", "RequestHeader=a:1"},
	} {
		has := strings.Split(ask(line), "\n")
		for _, field := range append(want, "StatusCode=200", "Hostname=echo-v1-7") {
			if !slices.Contains(has, field) {
				t.Errorf("client %s prints no %s: %q", line, field, has)
			}
		}
	}
	if got := strings.Count(ask(fmt.Sprintf("http://localhost:%d --count=3", plain)), "\n\n"); got != 3 {
		t.Errorf("--count=3 prints %d responses", got)
	}
}
