package kube

import (
	"strings"
	"testing"
)

// TestKubeconfigsOfSecretsNameNothingElse: a kubeconfig in a Secret leads to the address of its cluster alone: to no proxy, and to no
// program or file of the control plane's machine. The error names the field.
func TestKubeconfigsOfSecretsNameNothingElse(t *testing.T) {
	const good = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://east.example:6443", certificate-authority-data: Y2E=}}], users: [{name: u, user: {token: t}}]}`
	if c, err := remoteConfig([]byte(good)); err != nil || c.Host != "https://east.example:6443" || c.Proxy != nil {
		t.Fatalf("the good one: %+v, %v", c, err)
	}
	for field, text := range map[string]string{
		"proxy-url":                strings.Replace(good, "server:", "proxy-url: 'http://169.254.169.254:80', server:", 1),
		"insecure-skip-tls-verify": strings.Replace(good, "server:", "insecure-skip-tls-verify: true, server:", 1),
		"certificate-authority":    strings.Replace(good, "server:", "certificate-authority: /etc/passwd, server:", 1),
		"server":                   strings.Replace(good, "https://east", "http://east", 1),
		"tokenFile":                strings.Replace(good, "token: t", "tokenFile: /etc/passwd", 1),
		"client-certificate":       strings.Replace(good, "token: t", "client-certificate: /etc/passwd", 1),
		"client-key":               strings.Replace(good, "token: t", "client-key: /etc/passwd", 1),
		"auth-provider":            strings.Replace(good, "token: t", "auth-provider: {name: gcp}", 1),
		"exec": strings.Replace(good, "token: t",
			"exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}", 1),
	} {
		if c, err := remoteConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v; want an error that names the field", field, c, err)
		}
	}
}
