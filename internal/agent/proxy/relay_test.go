package proxy

import (
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
)

// TestRelayServesWhileEnvoyRuns: the socket is there before Envoy and after it, and is not left behind.
func TestRelayServesWhileEnvoyRuns(t *testing.T) {
	o, out := testOptions(
		t,
		fakeEnvoy(
			t,
			`trap 'test -S "$(dirname $CONFIG)/XDS" && echo and still; exit 0' TERM; test -S "$(dirname $CONFIG)/XDS" && echo the socket is there; while :; do sleep 0.05; done`,
		),
	)
	o.Relay = &settings.Relay{Socket: filepath.Join(o.ConfigDir, "XDS")}
	o.Bootstrap.DiscoverySocket = o.Relay.Socket
	stop := background(t, o, nil)
	out.Await(t, "the socket is there")
	if err := stop(); err != nil {
		t.Error(err)
	}
	out.Await(t, "and still")
	if _, err := os.Stat(o.Relay.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestRenewedOptionsKeepTheRelay(t *testing.T) {
	first := settings.Options{Relay: &settings.Relay{Socket: "x"}, Secrets: &secrets.Options{}}
	first.Bootstrap.Discovery.Host, first.Bootstrap.DiscoverySocket = "a", "x"
	var now settings.Options
	now.Bootstrap.Discovery.Host = "b"
	keepParts(&now, first)
	if now.Relay != first.Relay || now.Bootstrap.DiscoverySocket != "x" || now.Bootstrap.Discovery.Host != "a" {
		t.Errorf("%+v", now.Bootstrap)
	}
}
