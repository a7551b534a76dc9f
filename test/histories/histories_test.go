package histories

import (
	"context"
	"crypto/tls"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/test/plane"
)

var (
	steps      = flag.Int("steps", 0, "how many steps; 0: as many as belong to every run of the tests")
	seed       = flag.Uint64("seed", 1, "what the first history is made from; those after it count on")
	scriptFile = flag.String("script", "", "play this script alone")
)

// length is how many steps a history has. Several short histories find more than one long history, which has all objects after a while.
const length = 100

// newPlanes makes the parts that all control planes of a test share, including certificates of proxies. change changes the options of all.
func newPlanes(t *testing.T, change ...func(*app.Options)) *planes {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := &planes{decoder: decoder, options: plane.SecureOptions(t), pairs: map[string]*tls.Certificate{}}
	for _, f := range change {
		f(&out.options)
	}
	issuer := plane.Start(t, out.options)
	out.roots = issuer.Discovery.Authority().Pool()
	for _, namespace := range namespaces {
		for _, account := range []string{"web", "edge"} {
			out.pairs[namespace+"/"+account] = issuer.JoinAs(t, namespace, account)
		}
	}
	return out
}

// TestInProcess: after each step of a random history every proxy holds the same as from a control plane that was just started.
func TestInProcess(t *testing.T) {
	shared := newPlanes(t)
	hunt(t, hunting{usual: 1000}, func(t *testing.T, seed uint64) (*player, error) {
		folder, err := newFolder(t.TempDir())
		if err != nil {
			return nil, err
		}
		p := *shared
		p.folder = folder
		p.linger, p.grace = time.Hour, 0
		if seed%2 == 0 {
			p.linger = time.Millisecond
		}
		if seed%4 < 2 {
			p.grace = 5 * time.Millisecond
		}
		return &player{
			world: folder, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return p.start(ctx) },
		}, nil
	})
}

// hurry is how much less patience there is where many parts of a script are tried, to see which of them fail.
const hurry = 7

// hunting says which histories are drawn.
type hunting struct {
	usual    int                 // how many steps, unless the command line says otherwise
	platform bool                // objects of a cluster, and what happens to one, are drawn too
	servers  bool                // contents of registries, and their outages, are drawn too
	fit      func(script) script // adapts a script to the world that it is played on; nil: not at all
	patience time.Duration       // how long a step may take; 0: as long as usual
}

// hunt plays histories until there were enough steps. One that fails is shortened.
func hunt(t *testing.T, h hunting, make func(t *testing.T, seed uint64) (*player, error)) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if h.fit == nil {
		h.fit = func(s script) script { return s }
	}
	h.patience = max(h.patience, patience)
	n := h.usual
	if *steps > 0 {
		n = *steps
	}
	play := func(s script, seed uint64, patience time.Duration) error {
		p, err := make(t, seed)
		if err != nil {
			return err
		}
		p.patience = patience
		return p.play(s, func(int) {})
	}
	if *scriptFile != "" {
		s, err := readScript(*scriptFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := play(h.fit(s), *seed, h.patience); err != nil {
			t.Fatal(err)
		}
		return
	}
	for at := *seed; n > 0; at++ {
		s := h.fit(write(decoder, at, min(n, length), h.platform, h.servers))
		n -= max(len(s), 1)
		err := play(s, at, h.patience)
		if err == nil {
			continue
		}
		t.Logf("seed %d: %v", at, err)
		kept := filepath.Join(os.TempDir(), "failed-history.yaml")
		keep := func(s script) {
			if err := os.WriteFile(kept, []byte(s.String()), 0o644); err != nil {
				t.Log(err)
			}
		}
		keep(s)
		if play(s, at, h.patience) == nil {
			t.Fatalf("seed %d, kept in %s, does not fail each time", at, kept)
		}
		short := s.shorten(300, func(less script) bool { return play(less, at, h.patience/hurry) != nil })
		keep(short)
		t.Fatalf("seed %d, shortened, kept in %s:\n%s\nfails with %v", at, kept, short, play(short, at, h.patience))
	}
}
