package ctl_test

import (
	"os"
	"strings"
	"testing"
)

// TestAnalyze: the verb reads files without a control plane, and its exit code depends on the worst problem.
func TestAnalyze(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "nowhere")
	t.Setenv("HOME", t.TempDir())
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: legacy, namespace: shop}\n" +
		"spec: {hosts: [legacy.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}\n"
	for name, text := range map[string]string{
		"warning.yaml": entry,
		"clean.yaml":   strings.Replace(entry, "STATIC", "DNS", 1),
		"error.yaml":   strings.Replace(entry, "STATIC", "STATICK", 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code string   // the printed exit code; empty: 0
		says []string // other printed text
	}{
		{args: "clean.yaml", says: []string{"no problems"}},
		{args: "warning.yaml", says: []string{"warning: ServiceEntry shop/legacy", "warning.yaml:", "1 warning"}},
		{args: "warning.yaml --failure-threshold Warning", code: "exit code 1:", says: []string{"1 problem of"}},
		{args: "warning.yaml --failure-threshold warning -S NoEnd*=ServiceEntry", code: "exit code 1:"},
		{args: "error.yaml warning.yaml", code: "exit code 1:", says: []string{"error: ServiceEntry shop/legacy", "UnknownValue"}},
		{args: "error.yaml -o json --output-threshold Error", code: "exit code 1:", says: []string{`"code": "UnknownValue"`}},
		{args: "error.yaml -o yaml", code: "exit code 1:", says: []string{"- code: UnknownValue"}},
		{args: "warning.yaml missing.yaml", code: "exit code 2:", says: []string{"missing.yaml: no such file", "1 warning"}},
		{args: "", code: "exit code 2:", says: []string{"name files or folders"}},
		{args: "clean.yaml -o table", code: "exit code 2:", says: []string{"want log, json, yaml, oneline, sarif, github"}},
		{args: "clean.yaml --failure-threshold bad", code: "exit code 2:", says: []string{"--failure-threshold bad"}},
		{args: "clean.yaml -S nothing", code: "exit code 2:", says: []string{"want CODE=KIND NAME.NAMESPACE"}},
	} {
		out := pilotctl(append([]string{"analyze"}, strings.Fields(c.args)...)...)
		for _, want := range append(c.says, c.code) {
			if !strings.Contains(out, want) {
				t.Errorf("analyze %s prints\n%s\nwithout %q", c.args, out, want)
			}
		}
		if c.code == "" && strings.Contains(out, "exit code") {
			t.Errorf("analyze %s fails:\n%s", c.args, out)
		}
	}
	out := pilotctl("analyze", "warning.yaml", "--failure-threshold", "Info", "-S", "No*=ServiceEntry legacy.shop")
	if out != "no problems\n" {
		t.Errorf("what is suppressed is told, or counts:\n%s", out)
	}
}
