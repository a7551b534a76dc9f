package identity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/app"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestRevokedByCommand: a self-made authority revokes a workload's certificate while its root is being replaced: every
// Envoy refuses it within seconds, its agent is cut off, and no other request fails.
func TestRevokedByCommand(t *testing.T) {
	f := newFleet(t, func(*app.Options) {})
	f.launch(t, "server")
	bad, good := f.launch(t, "bad"), f.launch(t, "good")
	f.serves(t, "bad")
	f.serves(t, "good")
	load := live.StartLoad(t, live.HTTPClients("HTTP", 2, f.from("good")))
	serial := bad.await(t, "ready", func(s memberState) bool { return s.Ready }).secret(secrets.DefaultName).Serial
	f.command(t, "ca", "rotate") // two issuers: each needs a list
	good.await(t, "told of the next root", func(s memberState) bool { return s.believes(2, 0) })
	began := time.Now()
	f.command(t, "ca", "revoke", serial)
	rig.Eventually(t, func() error {
		if r := live.Send(t, f.from("bad")); r.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", r.Status, r.Body)
		}
		return nil
	})
	t.Logf("refused after %s", time.Since(began).Round(time.Millisecond))
	good.await(t, "told of the list", func(s memberState) bool { return s.believes(2, 1) })
	bad.await(t, "cut off", func(s memberState) bool { return !s.connected() && strings.Contains(fmt.Sprint(s.Relay), "is revoked") })
	load.Await(t, 50)
	if r := live.Send(t, f.from("bad")); r.Status != http.StatusServiceUnavailable {
		t.Errorf("let in again: %d %s", r.Status, r.Body)
	}
	load.Stop(t)
}
