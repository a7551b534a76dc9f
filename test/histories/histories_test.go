package histories

import (
	"context"
	"crypto/tls"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/test/plane"
)

var (
	steps      = flag.Int("steps", 0, "how many steps; 0: as many as belong to every run of the tests")
	seed       = flag.Uint64("seed", 1, "what the first history is made from; those after it count on")
	scriptFile = flag.String("script", "", "play this script alone")
)

// length is how many steps a history has. Several short ones find more than one long one, whose objects are all there after a while.
const length = 100

// TestInProcess: after each step of a random history every proxy holds what it gets from a control plane that was just started.
func TestInProcess(t *testing.T) {
	shared := &planes{decoder: newDecoder(t), state: t.TempDir(), pairs: map[string]*tls.Certificate{}}
	opts := plane.Options()
	opts.SecureAddr = "127.0.0.1:0"
	opts.Identity.CA.Plugged, opts.Identity.CA.State = "", shared.state
	issuer := plane.Start(t, opts)
	for _, namespace := range namespaces {
		for _, account := range []string{"web", "edge"} {
			shared.pairs[namespace+"/"+account] = issuer.JoinAs(t, namespace, account)
		}
	}
	hunt(t, 1000, func(t *testing.T, seed uint64) (*player, error) {
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
			folder: folder, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return p.start(ctx) },
		}, nil
	})
}

func newDecoder(t *testing.T) *config.Decoder {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hunt plays histories until there were that many steps, unless the command line says otherwise. One that fails is shortened.
func hunt(t *testing.T, usual int, make func(t *testing.T, seed uint64) (*player, error)) {
	n := usual
	if *steps > 0 {
		n = *steps
	}
	play := func(s script, seed uint64) error {
		p, err := make(t, seed)
		if err != nil {
			return err
		}
		return p.play(s, func(int) {})
	}
	if *scriptFile != "" {
		s, err := readScript(*scriptFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := play(s, *seed); err != nil {
			t.Fatal(err)
		}
		return
	}
	for at := *seed; n > 0; at++ {
		s := write(at, min(n, length))
		n -= len(s)
		err := play(s, at)
		if err == nil {
			continue
		}
		t.Logf("seed %d: %v", at, err)
		short := s.shorten(300, func(less script) bool { return play(less, at) != nil })
		kept := filepath.Join(os.TempDir(), "failed-history.yaml")
		if err := os.WriteFile(kept, []byte(short.String()), 0o644); err != nil {
			t.Log(err)
		}
		t.Fatalf("seed %d, shortened, kept in %s:\n%s\nfails with %v", at, kept, short, play(short, at))
	}
}
