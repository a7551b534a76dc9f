package regex_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fairway/build/envoybin"
	"fairway/internal/mesh/regex"
)

// accepts reports whether an Envoy takes a bootstrap with a regular expression in a route.
func accepts(t *testing.T, binary, re string) bool {
	t.Helper()
	quoted, err := json.Marshal(re)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	text := `
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          http_filters:
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {safe_regex: {regex: ` + string(quoted) + `}}, direct_response: {status: 200}}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), binary, "--mode", "validate", "-c", file).Run() == nil
}

// TestRegexesThatEnvoyRefuses: what regex.Check refuses for Envoy's sake Envoy does refuse, and it takes what passes. Escapes by
// number are the case in point: Envoy has RE2 match bytes.
func TestRegexesThatEnvoyRefuses(t *testing.T) {
	binary, err := envoybin.Find()
	if testing.Short() || err != nil {
		t.Skip("it takes an Envoy", err)
	}
	for _, re := range []string{
		`\x{ff}`, `\xff`, `\x{0ff}`, `\x{e9}`, `\x{100}`, `[\x{61}-\x{200}]`, `\x{10FFFF}`, `\Q\x{100}\E`, `\\x{20}`, `é+`,
		`\pL`, `\p{Greek}`, `\p{greek}`, `\p{LC}`, `\p{ASCII}`, `\p{^Lu}`, `\p{Any}`, `\p{Garay}`,
	} {
		if passes, taken := regex.Check(re) == nil, accepts(t, binary, re); passes != taken {
			t.Errorf("%s: passes the check: %t, is taken by Envoy: %t", re, passes, taken)
		}
	}
}
