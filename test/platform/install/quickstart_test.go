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

// TestQuickStart does what each line of the quick start says, in order. Images are not run: the kubelet only reports that they run.
func TestQuickStart(t *testing.T) {
	lines := quickStart(t)
	if len(lines) < 8 || lines[0] != "pilotctl install --set global.hub=registry.example/mesh" {
		t.Fatalf("the quick start is %q", lines)
	}
	w := start(t) // the first line, and what its images would run
	w.does(t, w.webhooks()...)
	printed := map[string]string{}
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		if words[0] == "pilotctl" {
			printed[words[1]] = w.does(t, words[1:]...)
			if words[1] == "problems" { // until the control plane has seen the pods
				rig.Eventually(t, func() error {
					if out := w.does(t, "problems"); !strings.Contains(out, "no problems") {
						return fmt.Errorf("problems prints\n%s", out)
					}
					return nil
				})
			}
			continue
		}
		out := w.kubectl(t, "", words[1:]...)
		if words[0] != "kubectl" {
			t.Fatalf("the test does not know %q", line)
		}
		if strings.Contains(out, "deployment.apps/") {
			w.bothRun(t)
		}
		printed[strings.Join(words[1:], " ")] = out
	}
	out := printed["check-inject"]
	if !strings.Contains(out, " yes ") || !strings.Contains(out, "the namespace says istio-injection=enabled") {
		t.Errorf("check-inject prints\n%s", out)
	}
	if out := printed["version"]; !strings.Contains(out, "control plane") {
		t.Errorf("version prints\n%s", out)
	}
}

// webhooks returns the flags that tell the API server the URLs of the webhooks of the control plane in the test, which has no Service.
func (w *world) webhooks() []string {
	at := "https://" + w.plane.Discovery.HTTPSAddr()
	return []string{
		"install", "--set", "istiodRemote.injectionURL=" + at + "/inject", "--set", "istiodRemote.validationURL=" + at + "/validate",
		"--set", "istiodRemote.caBundle=" + base64.StdEncoding.EncodeToString(w.plane.Discovery.Authority().Roots()),
		"--set", "validation.failurePolicy=Fail", "--set", "revisionTags={prod}",
	}
}

// kubectl runs kubectl as the administrator, in the project's folder, and returns its output.
func (w *world) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := w.Kubectl(t.Context(), w.user.kubeconfig, root, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestKubectlSaysWhy: a wrong rule is refused when it is applied, and kubectl prints which field is wrong and how to correct it. The rule
// in force stays, also if it is changed for the worse.
func TestKubectlSaysWhy(t *testing.T) {
	w := start(t)
	w.does(t, w.webhooks()...)
	w.kubectl(t, "", "create", "namespace", "shop")
	const wrong = "spec.http[0].match[0].uri.regex" // no schema can say that it is
	rule := func(path string) string {
		return `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web], http: [{match: [{uri: {regex: "` + path + `"}}], route: [{destination: {host: web}}]}]}
`
	}
	refused := func(path string) {
		t.Helper()
		rig.Eventually(t, func() error { // the API server takes up webhooks within a second
			out, err := w.Kubectl(t.Context(), w.user.kubeconfig, root, rule(path), "apply", "--dry-run=server", "-f", "-")
			if err == nil {
				return fmt.Errorf("kubectl applies it: %s", out)
			}
			for _, want := range []string{"denied the request", wrong, path} {
				if !strings.Contains(out, want) {
					return fmt.Errorf("kubectl does not print %q:\n%s", want, out)
				}
			}
			return nil
		})
		out, err := w.Kubectl(t.Context(), w.user.kubeconfig, root, rule(path), "apply", "-f", "-")
		if err == nil || !strings.Contains(out, wrong) {
			t.Errorf("kubectl ends with %v, and prints\n%s", err, out)
		}
	}
	refused("/a(")
	if out := w.kubectl(t, "", "get", "virtualservices", "-n", "shop"); !strings.Contains(out, "No resources found") {
		t.Errorf("what was refused is there:\n%s", out)
	}
	if out := w.kubectl(t, rule("/b"), "apply", "-f", "-"); !strings.Contains(out, "virtualservice.networking.istio.io/web created") {
		t.Errorf("kubectl prints\n%s", out)
	}
	refused("/c[")
	path := []string{"get", "virtualservice", "web", "-n", "shop", "-o", "jsonpath={.spec.http[0].match[0].uri.regex}"}
	if out := w.kubectl(t, "", path...); out != "/b" {
		t.Errorf("the rule has the path %q", out)
	}
	w.kubectl(t, rule("/b"), "delete", "-f", "-")
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
