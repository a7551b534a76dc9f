package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/printable"
)

// FuzzProxyConfig: any text in PROXY_CONFIG, in the mesh's defaultConfig or in the workload's annotation gives a configuration that
// can be written and read again as the same, or a mistake of the user's that is fit to be printed. Resolving it gives a bootstrap,
// or such a mistake.
func FuzzProxyConfig(f *testing.F) {
	f.Add("{discoveryAddress: own:2, concurrency: 3, proxyMetadata: {ISTIO_META_HTTP10: \"1\"}}", "drainDuration: 5s\n", "")
	f.Add("concurrency: many", "a: &a [1, 2]\nb: [*a, *a, *a]", "proxyStatsMatcher: {inclusionPrefixes: [a]}")
	f.Add("tracing: {zipkin: {address: 'z:9'}, sampling: .nan}", "1: 2", "\xff")
	f.Add(`{"terminationDrainDuration": "2562047h47m16.854775807s", "statusPort": 70000}`, "--- x\n--- y", "!!binary aGk=")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, variable, annotation, mesh string) {
		at := filepath.Join(dir, strconv.Itoa(os.Getpid()))
		files := map[string]string{
			at + ".annotations": configAnnotation + "=" + strconv.Quote(annotation) + "\n",
			at + ".mesh":        "defaultConfig:\n  proxyMetadata: {A: " + strconv.Quote(mesh) + "}\n" + mesh,
		}
		for path, text := range files {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		flags := unset()
		flags.MeshConfig = at + ".mesh"
		env := Environment{Hostname: "h", Vars: map[string]string{"PROXY_CONFIG": variable}, AnnotationsFile: at + ".annotations"}
		config, unknown, err := resolveProxyConfig(flags, env)
		if err != nil {
			checkMistake(t, err)
			return
		}
		if said := strings.Join(unknown, ""); !utf8.ValidString(said) || len(unknown) > 3*mostUnknown ||
			len(said) > len(unknown)*printable.Long {
			t.Fatalf("unknown fields: %q", unknown)
		}
		sameAgain(t, config)
		if again, _, err := resolveProxyConfig(flags, env); err != nil || !proto.Equal(config, again) {
			t.Fatalf("read again it is %v, %v, not %v", again, err, config)
		}
		o, err := Resolve(flags, env)
		if err == nil && o.CustomConfig == "" {
			_, _, err = o.Plan()
		}
		if err != nil {
			checkMistake(t, err)
		}
	})
}

// checkMistake checks that an error is a user's mistake, in bounded text that is fit to be printed.
func checkMistake(t *testing.T, err error) {
	t.Helper()
	if said := printable.Lines(err.Error(),
		printable.Long); !isMistake(err) || !utf8.ValidString(said) || len(said) > 2*printable.Long ||
		said == "" {
		t.Fatalf("%T: %q", err, said)
	}
}

// sameAgain writes a configuration as node metadata carries it, and reads that.
func sameAgain(t *testing.T, config *meshconfig.ProxyConfig) {
	t.Helper()
	tree, err := asMap(config)
	if err != nil {
		t.Fatal(fmt.Errorf("%v cannot be written: %w", config, err))
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	again := &meshconfig.ProxyConfig{}
	if _, err := decodeYAML(text, again); err != nil || !proto.Equal(config, again) {
		t.Fatalf("%s is read as %v, %v, not %v", text, again, err, config)
	}
}
