package agent

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// custom is a bootstrap written by hand that counts requests as the control plane has Envoy count them.
const custom = `
node: {id: "{{ .nodeID }}", cluster: "{{ .cluster }}", metadata: {{ .meta_json_str }}}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: {{ .admin_port }}}}}
static_resources:
  listeners:
  - name: web
    address: {socket_address: {address: "{{ .instance_ip }}", port_value: 8080}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          access_log:
          - name: envoy.access_loggers.stats
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config
              stat_prefix: istio
              counters:
              - stat: {name: requests_total, tags: [{name: response_code, value_format: "%RESPONSE_CODE%"}]}
                value_fixed: 1
              histograms:
              - stat: {name: request_duration_milliseconds, tags: [{name: response_code, value_format: "%RESPONSE_CODE%"}]}
                unit: Milliseconds
                value_format: "%DURATION%"
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: ROUND}}]}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`

// TestCustomBootstrap: a template is filled in, hot-restarted when it changes, and what its stats access logger counts has Istio's names.
func TestCustomBootstrap(t *testing.T) {
	m := live.Start(t, live.Options{})
	s := with(t, m, "web", quick...)
	s.dir = t.TempDir()
	file := filepath.Join(s.dir, "bootstrap.yaml.tmpl")
	s.env = []string{"PROXY_CONFIG={customConfigFile: " + file + "}"}
	write := func(status string) {
		t.Helper()
		text := []byte(replaceRound(status))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("200")
	p := launch(t, s)
	answers := func(want int) {
		t.Helper()
		rig.Eventually(t, func() error {
			code, _, err := call(http.MethodGet, "http://"+m.Addr("web", 8080)+"/")
			if err == nil && code != want {
				err = fmt.Errorf("status %d, want %d", code, want)
			}
			return err
		})
	}
	answers(200)
	write("204")
	answers(204)
	p.await(t, "hot restart", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 && f.Envoys.Draining == nil })
	wantContains(t, "metrics", p.metrics(t), "# TYPE istio_requests_total counter", `istio_requests_total{response_code="204"}`,
		"# TYPE istio_request_duration_milliseconds histogram", `istio_request_duration_milliseconds_bucket{response_code="204",le="`)
}

func replaceRound(status string) string { return strings.ReplaceAll(custom, "ROUND", status) }
