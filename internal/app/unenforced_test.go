package app_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"fairway/internal/config"
	"fairway/internal/mesh/code"
	"fairway/test/plane"
)

// lockedBuffer takes lines of the log from any goroutine.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// take returns what was written since the last take, by lines.
func (b *lockedBuffer) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return strings.Split(strings.TrimSpace(b.buf.String()), "\n")
}

// TestUnenforcedPoliciesComeFirst: a policy that nothing carries out fails open, so it is an error, the first of all
// problems and the first that the log says of its turn.
func TestUnenforcedPoliciesComeFirst(t *testing.T) {
	var log lockedBuffer
	opts := plane.Options()
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := plane.Start(t, opts)
	p.Apply(t, "a-broken.yaml", "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: broken}\nspec: {}\n")
	p.Apply(
		t,
		"b-nothing.yaml",
		"apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: watch}\nspec: {url: \"oci://a/b\"}\n",
	)
	if said := strings.Join(log.take(), "\n"); strings.Contains(said, "ERROR") {
		t.Errorf("the log says too much of a policy that refuses nothing:\n%s", said)
	}
	p.Apply(
		t,
		"z-policy.yaml",
		"apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: nobody, namespace: shop}\n"+
			"spec: {url: \"oci://a/b\", phase: AUTHZ}\n"+
			"---\napiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\nmetadata: {name: tokens, namespace: "+
			"shop}\nspec: {phase: AUTHN, lua: {inlineCode: \"function envoy_on_request(h) end\"}}\n",
	)
	var got []string
	for _, problem := range p.Discovery.Problems() {
		got = append(got, problem.Severity.String()+" "+problem.Code+" "+problem.Object.Name)
	}
	want := []string{
		"error " + code.NotEnforced + " tokens",
		"error " + code.NotEnforced + " nobody",
		"error Missing broken",
		"info NotYet watch",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	lines := log.take()
	if !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "policies=2") ||
		!strings.Contains(
			lines[0],
			"TrafficExtension shop/tokens (z-policy.yaml:6), WasmPlugin shop/nobody (z-policy.yaml:1)",
		) {
		t.Errorf("the log says\n%s\nwant the policies first", strings.Join(lines, "\n"))
	}
	p.Apply(t, "other.yaml", "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: w}\nspec: {address: 1.1.1.1}\n")
	if said := strings.Join(log.take(), "\n"); strings.Contains(said, "ERROR") {
		t.Errorf("what is known is said again:\n%s", said)
	}
	p.Delete(t, config.WasmPlugin, "shop", "nobody")
	p.Delete(t, config.TrafficExtension, "shop", "tokens")
	if said := strings.Join(log.take(), "\n"); !strings.Contains(said, "every policy is enforced") {
		t.Errorf("the log does not say that no policy is left:\n%s", said)
	}
}
