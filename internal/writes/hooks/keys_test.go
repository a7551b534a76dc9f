package hooks

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"fairway/internal/webhook/place"
)

const one, other = "0123456789abcdefghij", "zzzzzzzzzzzzzzzzzzzz"

func hookAt(path, url string) hook {
	if url != "" {
		path = place.OfURL(url)
	}
	return hook{name: "h", path: path, url: url}
}

// TestKeysOfConfigurations: a webhook of injection without a key gets one: the configuration's own, the last one that was written, or a
// new one. Everything else in the path stays, and webhooks of something else stay as they are.
func TestKeysOfConfigurations(t *testing.T) {
	ring := keyring{}
	fill := func(name string, all ...hook) []client {
		t.Helper()
		clients := make([]client, len(all))
		if err := ring.fill(name, all, clients); err != nil {
			t.Fatal(err)
		}
		return clients
	}
	got := fill("a", hookAt("/inject/key/"+one, ""), hookAt("/inject/cluster/east", ""), hookAt("/other", ""))
	if got[0].Service != nil || got[2].Service != nil ||
		got[1].Service == nil || got[1].Service.Path != "/inject/key/"+one+"/cluster/east" {
		t.Errorf("%+v", got)
	}
	got = fill("a", hookAt("", "https://istiod.example/inject/net/n1"))
	if got[0].URL != "https://istiod.example/inject/key/"+one+"/net/n1" || got[0].Service != nil {
		t.Errorf("after the path was taken away: %+v", got)
	}
	got = fill("b", hookAt("/inject/key/short", ""))
	fresh, _ := hookAt(got[0].Service.Path, "").key()
	if fresh == "" || fresh == one {
		t.Errorf("%+v", got[0].Service)
	}
	if again := fill("c", hookAt("/inject", "")); again[0].Service.Path == got[0].Service.Path {
		t.Error("two configurations have the same new key")
	}
	for _, path := range []string{"", "/", "/validate"} {
		if got := fill("d", hookAt(path, "")); got[0].Service != nil {
			t.Errorf("%q: %+v", path, got[0])
		}
	}
	if got := fill("e", hookAt("/inject/key/"+other, "")); got[0].Service != nil {
		t.Errorf("a key that somebody chose is replaced: %+v", got[0].Service)
	}
}

// TestKeysThatAreTakenAway: if another program removes the key each time, the writes are bounded, and the failure says what to do.
func TestKeysThatAreTakenAway(t *testing.T) {
	ring := keyring{}
	var err error
	for range rewrites + 1 {
		clients := make([]client, 1)
		if err = ring.fill("a", []hook{hookAt("/inject", "")}, clients); err != nil {
			break
		}
		ring.spend("a", clients)
	}
	if !errors.Is(err, errKeyRemoved) || !strings.Contains(err.Error(), "sidecarInjectorWebhook.key") {
		t.Errorf("%v", err)
	}
	ring["a"].limit = rate.NewLimiter(1, 1) // as after a while
	if err := ring.fill("a", []hook{hookAt("/inject", "")}, make([]client, 1)); err != nil {
		t.Error(err)
	}
}
