package listener_test

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"fairway/internal/compile/compiletest"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/xdstype"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const scripts = "testdata/*.txtar"

// TestGolden runs the scripts: proxies and objects in, listeners and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, scripts, *update) }

// played runs a test in the world of each script.
func played(t *testing.T, test func(*testing.T, *compiletest.World)) {
	files, err := filepath.Glob(scripts)
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { test(t, compiletest.Play(t, file)) })
	}
}

// TestEnvoyTakesThem shows a real Envoy what each proxy of every script gets.
func TestEnvoyTakesThem(t *testing.T) {
	played(t, func(t *testing.T, w *compiletest.World) {
		for _, seen := range w.Seen(xdstype.Listeners) {
			var listeners []*listenerv3.Listener
			var needs []string
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				listeners, needs = append(listeners, listenertest.Decode(t, name, seen[name])), append(needs, seen[name].Needs...)
			}
			listenertest.Validate(t, listeners, needs)
		}
	})
}

// TestWhatEnvoyWaitsFor holds two things that would stop a proxy without a word of protest: a route configuration that
// a listener names and nobody publishes, and two listeners at one address.
func TestWhatEnvoyWaitsFor(t *testing.T) {
	played(t, func(t *testing.T, w *compiletest.World) {
		routes := w.Seen(xdstype.Routes)
		for id, seen := range w.Seen(xdstype.Listeners) {
			places := map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				l := listenertest.Decode(t, name, seen[name])
				if other := places[l.GetAddress().String()]; other != "" {
					t.Errorf("%s: %s and %s have one address", id, name, other)
				}
				places[l.GetAddress().String()] = name
				for _, r := range listenertest.Routes(l) {
					if routes[id][r] == nil {
						t.Errorf("%s: %s waits for the route configuration %q", id, name, r)
					}
				}
			}
		}
	})
}
