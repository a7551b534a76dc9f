package envoy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestHeaderCase: headers of HTTP/1 arrive, and come back, in the case that they were sent in, if the proxies' configuration says so
// (ProxyConfig.proxyHeaders.preserveHttp1HeaderCase), otherwise in lower case.
func TestHeaderCase(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("kept=", kept), func(t *testing.T) {
			bothProtocols(t, func(t *testing.T, sotw bool) {
				own := fmt.Sprintf("defaultConfig: {proxyHeaders: {preserveHttp1HeaderCase: %v}}", kept)
				m := live.Start(t, live.Options{MeshConfig: own})
				const answer = "HTTP/1.1 200 OK\r\nX-AnSwer: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
				heads := m.Verbatim(t, "verbatim", answer)
				m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
				m.Apply(t, fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: verbatim, namespace: default},
  spec: {hosts: [verbatim.test], resolution: STATIC, ports: [{number: %d, name: http, protocol: HTTP, targetPort: %d}],
    endpoints: [{address: %s}]}}`, live.HTTPPort, live.Backing, m.IP("verbatim")))
				asked, answered := "X-MiXed: 1\r\n", "X-AnSwer: 1\r\n"
				if !kept {
					asked, answered = strings.ToLower(asked), strings.ToLower(answered)
				}
				rig.Eventually(t, func() error {
					request := "GET / HTTP/1.1\r\nHost: verbatim.test\r\nX-MiXed: 1\r\nConnection: close\r\n\r\n"
					answer, err := exact(from(m, "verbatim.test").To, request)
					switch {
					case err != nil:
						return err
					case !strings.Contains(answer, answered):
						return fmt.Errorf("the client got %q", answer)
					}
					return nil
				})
				if head := <-heads; !strings.Contains(head, asked) {
					t.Errorf("the server got %q", head)
				}
			})
		})
	}
}

// exact sends bytes to an address and reads all that comes back.
func exact(address, request string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, rig.Bound)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(rig.Bound))
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
