package agent

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

func TestIdentityIsResolved(t *testing.T) {
	t.Chdir(t.TempDir())
	env := Environment{
		Hostname:  "host",
		Addresses: []string{"10.1.1.1"},
		Vars:      map[string]string{"POD_NAMESPACE": "shop", "CA_ADDR": "ca:1"},
	}
	o, err := Resolve(unset(), env)
	if err != nil {
		t.Fatal(err)
	}
	if o.Secrets == nil || o.Secrets.Authority.Address != "ca:1" || o.Bootstrap.SecretsSocket != o.Secrets.Socket ||
		o.Secrets.Socket != filepath.Join(o.ConfigDir, "SDS") {
		t.Errorf("%+v, socket %q", o.Secrets, o.Bootstrap.SecretsSocket)
	}
	delete(env.Vars, "CA_ADDR")
	if o, err := Resolve(unset(), env); err != nil || o.Secrets != nil || o.Bootstrap.SecretsSocket != "" {
		t.Errorf("without a reason for an identity: %+v, %v", o.Secrets, err)
	}
	env.Vars["CA_ADDR"], env.Vars["SECRET_TTL"] = "ca:1", "soon"
	if _, err := Resolve(unset(), env); ExitCode(err) != 2 || !strings.Contains(err.Error(), "SECRET_TTL") {
		t.Errorf("%v", err)
	}
}

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
		Authority: &secrets.Authority{Address: "127.0.0.1:1", Token: "/no/token", Roots: "/no/roots"},
	}
	o.Bootstrap.SecretsSocket = socket
	stop := background(t, o, nil)
	out.await(t, "the socket is there")
	out.await(t, "CA_ROOT_CA")
	if err := stop(); err != nil {
		t.Error(err)
	}
	out.await(t, "and still")
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestReadinessWaitsForTheCertificate(t *testing.T) {
	o, _ := testOptions(t, "envoy")
	o.Secrets = &secrets.Options{Socket: "x", Now: time.Now, Authority: &secrets.Authority{Address: "x:1"}}
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
