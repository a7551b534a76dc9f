package settings

import (
	"path/filepath"
	"strings"
	"testing"
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
	if o.Secrets == nil || o.Secrets.Authority.Addresses[0] != "ca:1" || o.Bootstrap.SecretsSocket != o.Secrets.Socket ||
		o.Secrets.Socket != filepath.Join(o.ConfigDir, "SDS") {
		t.Errorf("%+v, socket %q", o.Secrets, o.Bootstrap.SecretsSocket)
	}
	delete(env.Vars, "CA_ADDR")
	if o, err := Resolve(unset(), env); err != nil || o.Secrets != nil || o.Bootstrap.SecretsSocket != "" {
		t.Errorf("without a reason for an identity: %+v, %v", o.Secrets, err)
	}
	env.Vars["CA_ADDR"], env.Vars["SECRET_TTL"] = "ca:1", "soon"
	if _, err := Resolve(unset(), env); !isMistake(err) || !strings.Contains(err.Error(), "SECRET_TTL") {
		t.Errorf("%v", err)
	}
}
