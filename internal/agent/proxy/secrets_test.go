package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/agent/status"
)

// TestSecretsAreServedWhileEnvoyRuns: from before its start until after its end, and nothing is left behind.
func TestSecretsAreServedWhileEnvoyRuns(t *testing.T) {
	o, out := testOptions(
		t,
		fakeEnvoy(
			t,
			`trap 'test -S "$(dirname $CONFIG)/SDS" && echo and still; exit 0' TERM; test -S "$(dirname $CONFIG)/SDS" && echo the socket is there; while :; do sleep 0.05; done`,
		),
	)
	socket := filepath.Join(o.ConfigDir, "SDS")
	o.Secrets = &secrets.Options{
		Socket:    socket,
		Now:       time.Now,
		Authority: &secrets.Authority{Addresses: []string{"127.0.0.1:1"}, Token: "/no/token", Roots: "/no/roots"},
	}
	o.Bootstrap.SecretsSocket = socket
	stop := background(t, o, nil)
	out.Await(t, "the socket is there")
	out.Await(t, "CA_ROOT_CA")
	if err := stop(); err != nil {
		t.Error(err)
	}
	out.Await(t, "and still")
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestReadinessWaitsForTheCertificate(t *testing.T) {
	o, _ := testOptions(t, "envoy")
	o.Secrets = &secrets.Options{Socket: "x", Now: time.Now, Authority: &secrets.Authority{Addresses: []string{"x:1"}}}
	s, err := newSecrets(o)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{secrets: s, ready: &status.Readiness{Draining: func() bool { return true }}}
	if got := a.reasons(t.Context()); len(got) != 2 || got[1] != "no certificate yet" {
		t.Errorf("%q", got)
	}
	o.Secrets = &secrets.Options{Socket: strings.Repeat("x", 200), Now: time.Now}
	if _, err := newSecrets(o); ExitCode(err) != 2 {
		t.Errorf("a socket that is too long: %v", err)
	}
}
