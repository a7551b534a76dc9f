package listener_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"golang.org/x/tools/txtar"

	"fairway/internal/envoy/listener/listenertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden applies in.yaml with the proxies connected, and compares what is published, and the problems, with out.
func TestGolden(t *testing.T) {
	for _, file := range files(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, in := parse(t, file)
			got := build(t, in, false).dump(t)
			if again := build(t, in, true).dump(t); again != got {
				t.Errorf("the order of arrival shows:\n%s\n%s", got, again)
			}
			if *update {
				write(t, file, a, got)
			} else if got != in["out"] {
				t.Errorf("got:\n%s\nwant:\n%s", got, in["out"])
			}
		})
	}
}

// TestEnvoyTakesThem shows a real Envoy what each proxy of every golden file gets.
func TestEnvoyTakesThem(t *testing.T) {
	for _, file := range files(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			_, in := parse(t, file)
			for _, seen := range build(t, in, false).sees(t) {
				var listeners []*listenerv3.Listener
				var needs []string
				for _, name := range slices.Sorted(maps.Keys(seen)) {
					listeners, needs = append(listeners, listenertest.Decode(t, name, seen[name])), append(needs, seen[name].Needs...)
				}
				listenertest.Validate(t, listeners, needs)
			}
		})
	}
}

// TestWhatEnvoyWaitsFor holds two things that would stop a proxy without a word of protest: a route configuration that
// a listener names and nobody publishes, and two listeners at one address.
func TestWhatEnvoyWaitsFor(t *testing.T) {
	for _, file := range files(t) {
		_, in := parse(t, file)
		w := build(t, in, false)
		for id, seen := range w.sees(t) {
			routes := w.routes(t, id)
			places := map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				l := listenertest.Decode(t, name, seen[name])
				if other := places[l.GetAddress().String()]; other != "" {
					t.Errorf("%s: %s: %s and %s have one address", file, id, name, other)
				}
				places[l.GetAddress().String()] = name
				for _, r := range listenertest.Routes(l) {
					if !routes[r] {
						t.Errorf("%s: %s: %s waits for the route configuration %q", file, id, name, r)
					}
				}
			}
		}
	}
}

func files(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatal("no golden files", err)
	}
	return all
}

func parse(t *testing.T, file string) (*txtar.Archive, map[string]string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	for _, f := range a.Files {
		in[f.Name] = string(f.Data)
	}
	return a, in
}

// build makes the world of a golden file: objects first, or the proxies first and each in a turn of its own.
func build(t *testing.T, in map[string]string, stepwise bool) *world {
	t.Helper()
	w := newWorld()
	if stepwise {
		w.connect(in["proxies"])
		w.settle(t)
	}
	w.apply(t, in["in.yaml"])
	if !stepwise {
		w.connect(in["proxies"])
	}
	w.settle(t)
	return w
}

func write(t *testing.T, file string, a *txtar.Archive, got string) {
	t.Helper()
	found := false
	for i := range a.Files {
		if a.Files[i].Name == "out" {
			a.Files[i].Data, found = []byte(got), true
		}
	}
	if !found {
		a.Files = append(a.Files, txtar.File{Name: "out", Data: []byte(got)})
	}
	if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}
