package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"

	"fairway/internal/app/lasting"
	"fairway/internal/app/registries"
	"fairway/internal/config"
	"fairway/test/rig"
)

// options are those of a registry, as in the registries file.
type options map[string]any

// with returns them with others in their place.
func (o options) with(pairs ...any) options {
	o = maps.Clone(o)
	for i := 0; i < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

// entry is one of the registries file.
type entry map[string]any

// world is a registries file that is followed, as the control plane follows it, and what becomes of it.
type world struct {
	*sink
	t       *testing.T
	dir     string
	file    string
	sources *lasting.Sources
	log     rig.Log
	stop    func()
}

// open has a registries file followed until the test ends.
func open(t *testing.T, entries ...entry) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.file = filepath.Join(w.dir, "registries")
	w.write(entries...)
	w.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the sources say\n%s", w.log.String())
		}
	})
	return w
}

func (w *world) write(entries ...entry) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"registries": entries})
	if err != nil {
		w.t.Fatal(err)
	}
	rig.Write(w.t, w.dir, "registries", text)
}

// start starts everything anew with the files on disk.
func (w *world) start() {
	w.t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sink = newSink()
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.sources = lasting.New(w.set, lasting.Files{Dir: filepath.Join(w.dir, "state"), Suffix: ".registry.json", Rules: decoder}, log)
	file := registries.New(registries.Options{
		File: w.file, Sources: w.sources, Log: log, Env: registries.Env{Decoder: decoder, Log: log, Domain: "cluster.local"},
	})
	sink, err := w.set.Join(file.Name(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = apart(w.t, func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- w.sources.Run(ctx) }()
		err := file.Run(ctx, sink)
		if other := <-ended; err == nil {
			err = other
		}
		return err
	})
	rig.Eventually(w.t, func() error { return w.isSynced(file.Name()) })
}

// eventually waits until ask is nil, and shows what there is otherwise.
func (w *world) eventually(ask func() error) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		err := ask()
		if err != nil {
			err = fmt.Errorf("%w; sources: %+v; problems: %.2000s", err, w.set.Standings(), w.told())
		}
		return err
	})
}
