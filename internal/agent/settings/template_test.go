package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCustomBootstraps(t *testing.T) {
	for text, want := range map[string]string{
		`{"node":{"id":"{{ .nodeID }}","metadata":{{ .meta_json_str }}}}`:                                                                  `{"node":{"id":"sidecar~127.0.0.1~h.default~default.svc.cluster.local","metadata":{"CLUSTER_ID"`,
		`admin: {address: {socket_address: {address: "{{ .localhost }}", port_value: {{ .admin_port }}}}} # {{ .config.meshId | toJSON }}`: `port_value: 15000}}} # "m1"`,
	} {
		file := filepath.Join(t.TempDir(), "bootstrap.yaml.tmpl")
		os.WriteFile(file, []byte(text), 0o600)
		o, err := Resolve(unset(),
			Environment{Hostname: "h", Vars: map[string]string{"PROXY_CONFIG": "{meshId: m1, customConfigFile: " + file + "}"}})
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := o.Plan()
		if err != nil || !strings.Contains(string(p.Bootstrap), want) || p.Suffix != ".yaml" {
			t.Errorf("%s (%s, %v)", p.Bootstrap, p.Suffix, err)
		}
	}
	for text, want := range map[string]string{"{{ .nope }}": "nope", "{{": "template", "a: [": "yaml"} {
		file := filepath.Join(t.TempDir(), "x.tmpl")
		os.WriteFile(file, []byte(text), 0o600)
		if _, _, err := (Options{CustomConfig: file}).Plan(); !isMistake(err) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
