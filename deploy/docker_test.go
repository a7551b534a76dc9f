package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairway/build/envoybin"
	"fairway/internal/config"
)

// instructions are a Dockerfile's, by their word.
func instructions(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if word, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word != "#" {
			out[word] = append(out[word], rest)
		}
	}
	return out
}

// TestDockerfiles: `make programs` builds the copied programs, they start as docs/injection.md and the chart expect, and Envoy is the
// tested one.
func TestDockerfiles(t *testing.T) {
	for _, c := range []struct{ image, program string }{
		{"pilot", "pilot-discovery"}, {"proxyv2", "pilot-agent"}, {"pilotctl", "pilotctl"},
	} {
		said := instructions(t, "docker/"+c.image+".Dockerfile")
		path := "/usr/local/bin/" + c.program
		if info, err := os.Stat(filepath.Join("..", "cmd", c.program)); err != nil || !info.IsDir() {
			t.Errorf("%s: there is no program %s: %v", c.image, c.program, err)
		}
		for word, want := range map[string]string{
			"COPY": "--chmod=0755 " + c.program + " " + path, "WORKDIR": "/", "ENTRYPOINT": `["` + path + `"]`, "USER": "1337:1337",
		} {
			if !slices.Equal(said[word], []string{want}) {
				t.Errorf("%s: %s %q, want %q", c.image, word, said[word], want)
			}
		}
	}
	proxy := instructions(t, "docker/proxyv2.Dockerfile")
	if want := "ENVOY=envoyproxy/envoy:distroless-v" + envoybin.Version; !slices.Equal(proxy["ARG"], []string{want}) {
		t.Errorf("ARG %q, want %q", proxy["ARG"], want)
	}
	if !regexp.MustCompile(`^PATH=/usr/local/bin(:|$)`).MatchString(strings.Join(proxy["ENV"], " ")) {
		t.Errorf("ENV %q: pilot-agent is not in PATH", proxy["ENV"])
	}
	if path := config.DefaultMeshConfig().DefaultConfig.BinaryPath; path != "/usr/local/bin/envoy" { // where Envoy's image has it
		t.Errorf("the agent starts %s, which the image does not have", path)
	}
}
