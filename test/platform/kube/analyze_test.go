package kube_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"fairway/internal/ctl"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const analyzed = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: ingress}
  servers:
  - {port: {number: 443, name: web, protocol: HTTPS}, hosts: [web.example.com], tls: {mode: MUTUAL, credentialName: web,
      caCertCredentialName: "configmap://clients"}}
  - {port: {number: 443, name: api, protocol: HTTPS}, hosts: [api.example.com], tls: {mode: SIMPLE, credentialName: gone}}
---
apiVersion: v1
kind: Pod
metadata: {name: edge, namespace: shop, labels: {istio: ingress}}
spec: {nodeName: n1, containers: [{name: edge, image: edge}]}
status: {phase: Running, podIP: 10.3.0.9, podIPs: [{ip: 10.3.0.9}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: lost, namespace: shop}
spec: {hosts: [web], http: [{route: [{destination: {host: web, subset: v9}}]}]}
`

// TestAnalyze: pilotctl analyze reports the problems of a real cluster, with the Secrets and ConfigMaps that its rules name. It checks
// files as if they had been applied to the cluster, and names the kinds that its user may not read.
func TestAnalyze(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod+"---"+webRule+"---"+analyzed+"---"+rights)
	c.Apply(t, tlsSecret(t, "shop", "web")+"---\n"+authorities(t, "shop", "clients"))
	dir := t.TempDir()
	mended := rig.Write(t, dir, "mended.yaml", []byte(strings.ReplaceAll(analyzed, ", subset: v9", "")))
	analyze := func(user string, args ...string) string {
		t.Helper()
		groups := []string{"system:masters"}
		if user == "reader" {
			groups = nil
		}
		var out bytes.Buffer
		cmd := ctl.Command("test")
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"analyze", "--kubeconfig", c.Kubeconfig(t, nil, user, groups...)}, args...))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			fmt.Fprintf(&out, "exit code %d: %v\n", ctl.ExitCode(err), err)
		}
		return out.String()
	}
	const missing, unknown, cut = "there is no Secret shop/gone", "v9", "is not read: "
	for _, s := range []struct {
		name, user  string
		args        []string
		says, hides []string
	}{
		{"all of it", "admin", nil, []string{missing, unknown, "exit code 1: "}, []string{"Secret shop/web", "clients", cut}},
		{"one namespace", "admin", []string{"-n", "istio-system"}, []string{"no problems"}, []string{missing, unknown, "exit code"}},
		{"with a file", "admin", []string{"--use-kube", mended}, []string{missing, "exit code 1: "}, []string{unknown, "clients", cut}},
		{
			"with fewer rights", "reader", nil,
			[]string{missing, unknown, "exit code 2: ", "Telemetry is not read: ", "PeerAuthentication is not read: ", `User "reader" cannot list`},
			[]string{"Pod is not read", "Gateway is not read", "the last state that was read", "shop/clients"},
		},
		{
			"of one namespace with fewer rights", "reader", []string{"-n", "istio-system"},
			[]string{"exit code 2: ", "Telemetry is not read: "}, []string{missing},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			out := analyze(s.user, s.args...)
			for _, want := range s.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			for _, not := range s.hides {
				if strings.Contains(out, not) {
					t.Errorf("it says %q:\n%s", not, out)
				}
			}
		})
	}
}
