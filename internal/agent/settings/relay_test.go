package settings

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRelayIsResolved(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, discovery, flag string
		vars                  map[string]string
		on, secure            bool
		to                    string
	}{
		{"no identity", "", "", nil, false, false, "istiod.istio-system.svc:15010"},
		{"no identity, asked for", "a:15010", "true", nil, true, false, "a:15010"},
		{"asked for by variable", "a:15010", "", map[string]string{"XDS_RELAY": "true"}, true, false, "a:15010"},
		{"the flag wins", "a:15010", "false", map[string]string{"XDS_RELAY": "true"}, false, false, "a:15010"},
		{"identity, nothing said", "", "", map[string]string{"CA_ADDR": "ca:1"}, true, true, "istiod.istio-system.svc:15012"},
		{"identity, plaintext", "a:15010", "", map[string]string{"CA_ADDR": "ca:1"}, false, false, "a:15010"},
		{"identity, secure", "a:15012", "", map[string]string{"CA_ADDR": "ca:1"}, true, true, "a:15012"},
		{"identity, the authority's port", "ca:1", "", map[string]string{"CA_ADDR": "ca:1"}, true, true, "ca:1"},
		{"several", "a:15012,b:15012", "", map[string]string{"CA_ADDR": "ca:1"}, true, true, "a:15012"},
		{"several authorities", "ca:1, cb:2", "", map[string]string{"CA_ADDR": "ca:1,cb:2"}, true, true, "ca:1"},
		{"SPIRE", "a:15012", "", map[string]string{"SPIFFE_ENDPOINT_SOCKET": "/s"}, true, true, "a:15012"},
	} {
		f := unset()
		f.DiscoveryAddress, f.XDSRelay = c.discovery, c.flag
		o, err := Resolve(f, Environment{Hostname: "host", Addresses: []string{"10.1.1.1"}, Vars: c.vars})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if on := o.Relay != nil; on != c.on || on && o.Relay.Secure != c.secure || o.Bootstrap.Discovery.String() != c.to {
			t.Errorf("%s: relay %+v, to %s", c.name, o.Relay, o.Bootstrap.Discovery)
		}
		if want := filepath.Join(o.ConfigDir, "XDS"); c.on && o.Bootstrap.DiscoverySocket != want ||
			!c.on && o.Bootstrap.DiscoverySocket != "" {
			t.Errorf("%s: socket %q", c.name, o.Bootstrap.DiscoverySocket)
		}
	}
}

func TestRelayMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	f := unset()
	f.XDSRelay = "perhaps"
	env := Environment{Hostname: "host", Addresses: []string{"10.1.1.1"}, Vars: map[string]string{"CA_ADDR": "ca:1"}}
	if _, err := Resolve(f, env); !isMistake(err) || !strings.Contains(err.Error(), "--xdsRelay") {
		t.Errorf("%v", err)
	}
	f.XDSRelay, f.DiscoveryAddress = "false", "a:15012"
	if _, err := Resolve(f, env); !isMistake(err) || !strings.Contains(err.Error(), "plaintext port") {
		t.Errorf("%v", err)
	}
}
