package install_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/rig"
)

const root = "../../.."

// quickStart are the lines of docs/kubernetes.md.
func quickStart(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## Quick start\n")
	_, part, _ = strings.Cut(part, "\n```\n")
	part, _, ok := strings.Cut(part, "\n```\n")
	if !ok {
		t.Fatal("docs/kubernetes.md has no quick start")
	}
	return strings.Split(part, "\n")
}

// TestQuickStart does what each line of the quick start says, in order. Images are not run: the kubelet says that they do.
func TestQuickStart(t *testing.T) {
	lines := quickStart(t)
	if len(lines) < 8 || lines[0] != "pilotctl install" {
		t.Fatalf("the quick start is %q", lines)
	}
	w := start(t) // the first line, and what its images would run
	w.does(t, w.webhooks()...)
	printed := map[string]string{}
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		if words[0] == "pilotctl" {
			printed[words[1]] = w.does(t, words[1:]...)
			if words[1] == "problems" { // until the control plane has heard of the pods
				rig.Eventually(t, func() error {
					if out := w.does(t, "problems"); !strings.Contains(out, "no problems") {
						return fmt.Errorf("problems prints\n%s", out)
					}
					return nil
				})
			}
			continue
		}
		w.kubectl(t, line, words[1:])
	}
	out := printed["check-inject"]
	if !strings.Contains(out, " yes ") || !strings.Contains(out, "the namespace says istio-injection=enabled") {
		t.Errorf("check-inject prints\n%s", out)
	}
	if out := printed["version"]; !strings.Contains(out, "control plane") {
		t.Errorf("version prints\n%s", out)
	}
}

// webhooks are the flags with which the API server finds the webhooks of the control plane in the test, which is at no Service's address.
func (w *world) webhooks() []string {
	at := "https://" + w.plane.Discovery.HTTPSAddr()
	return []string{
		"install", "--set", "istiodRemote.injectionURL=" + at + "/inject", "--set", "istiodRemote.validationURL=" + at + "/validate",
		"--set", "istiodRemote.caBundle=" + base64.StdEncoding.EncodeToString(w.plane.Discovery.Authority().Roots()),
		"--set", "validation.failurePolicy=Fail", "--set", "revisionTags={prod}",
	}
}

// kubectl does what a line asks kubectl for, with requests of the test's own.
func (w *world) kubectl(t *testing.T, line string, args []string) {
	t.Helper()
	switch {
	case len(args) == 3 && args[0] == "create" && args[1] == "namespace":
		w.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+args[2]+"}")
	case len(args) == 4 && args[0] == "label" && args[1] == "namespace":
		name, value, _ := strings.Cut(args[3], "=")
		w.Patch(t, "/api/v1/namespaces/"+args[2], fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, name, value))
	case len(args) == 3 && args[0] == "apply" && args[1] == "-f":
		text, err := os.ReadFile(filepath.Join(root, args[2]))
		if err != nil {
			t.Fatal(err)
		}
		w.Apply(t, string(text))
		if strings.Contains(string(text), "kind: Deployment") {
			w.bothRun(t)
		}
	default:
		t.Fatalf("the test does not know what %q asks for", line)
	}
}

// bothRun waits until the quick start's pods are there, with their proxies.
func (w *world) bothRun(t *testing.T) {
	t.Helper()
	rig.Eventually(t, func() error {
		o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/pods", "", nil)
		if err != nil {
			return err
		}
		pods, _ := o["items"].([]any)
		injected := 0
		for _, p := range pods {
			if strings.Contains(fmt.Sprint(p), "istio-proxy") && strings.Contains(fmt.Sprint(p), "Running") {
				injected++
			}
		}
		if injected != 2 {
			return fmt.Errorf("of %d pods %d have a proxy and run", len(pods), injected)
		}
		return nil
	})
}
