package secrets

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"fairway/internal/disk/watch"
	"fairway/internal/identity/safefile"
)

// quiet is the wait after a change before files are read, since a set of files is seldom replaced at once; anyway is how often they
// are read without a change, since not every change is reported.
const (
	quiet   = 50 * time.Millisecond
	anyway  = 30 * time.Second
	mayTake = 5 * time.Second // wait after a failed read: the files may be half-replaced
)

// longestFile bounds a file of certificates, a key or a token, in bytes: a machine's own roots have a quarter of a megabyte.
const longestFile = 16 << 20

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func readPair(chain, key string) (*pair, error) {
	c, err := safefile.Read(chain, longestFile)
	if err != nil {
		return nil, err
	}
	k, err := safefile.Read(key, longestFile)
	if err != nil {
		return nil, err
	}
	p, err := newPair(c, k)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", chain, key, err)
	}
	return p, nil
}

func readRoots(file string) (*trusted, error) {
	text, err := safefile.Read(file, longestFile)
	if err != nil {
		return nil, err
	}
	t, err := newTrusted(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

func (s *Secrets) loadPair(name, chain, key string) (resource, error) {
	p, err := readPair(chain, key)
	if err != nil {
		return resource{}, err
	}
	s.mu.Lock()
	if old := s.known[name]; old == nil || old.Serial != p.certs[0].SerialNumber.Text(16) || old.Error != "" {
		s.describePair(name, p)
	}
	s.mu.Unlock()
	return certificateResource(name, p)
}

func (s *Secrets) loadRoots(name, file string) (resource, error) {
	t, err := readRoots(file)
	if err != nil {
		return resource{}, err
	}
	s.mu.Lock()
	s.describeRoots(name, t)
	s.mu.Unlock()
	return rootResource(name, t)
}

// followFiles serves a secret from files until ctx ends.
func (s *Secrets) followFiles(ctx context.Context, name string, load func() (resource, error), files []string) {
	s.onChange(ctx, files, func() error {
		r, err := load()
		if err != nil {
			s.fail(name, err)
			return err
		}
		if ctx.Err() == nil {
			s.store.put(name, r)
		}
		return nil
	})
}

// followOwnFiles reads the workload's own certificate from files.
func (s *Secrets) followOwnFiles(ctx context.Context) error {
	f := s.opts.Files
	var last *pair
	var lastRoots *trusted
	s.onChange(ctx, []string{f.Chain, f.Key, f.Roots}, func() error {
		p, err := readPair(f.Chain, f.Key)
		if err == nil {
			var t *trusted
			if t, err = readRoots(f.Roots); err == nil {
				if last != nil && string(last.chain) == string(p.chain) &&
					string(lastRoots.roots)+string(lastRoots.crl) == string(t.roots)+string(t.crl) {
					return nil
				}
				if err = s.set(p, t, time.Time{}); err == nil {
					last, lastRoots = p, t
					return nil
				}
			}
		}
		s.fail(DefaultName, err)
		return err
	})
	return nil
}

// onChange calls read at once and after every change of the files, until ctx ends. It logs an error once until another one comes.
func (s *Secrets) onChange(ctx context.Context, files []string, read func() error) {
	said := ""
	try := func() (wait time.Duration) {
		err := read()
		if err == nil {
			said = ""
			return anyway
		}
		s.counts.Unreadable.Add(1)
		if said != err.Error() {
			said = err.Error()
			s.opts.Log.Error("certificate files cannot be used; the ones read before stay in force", "error", err)
		}
		return mayTake
	}
	followed := watch.Follow(watch.Options{
		Files: func() []string { return files },
		Quiet: quiet,
		Every: anyway,
		Log:   s.opts.Log,
	})
	defer followed.Stop()
	timer := time.NewTimer(try())
	defer timer.Stop()
	for {
		select {
		case <-followed.Changed():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(try())
	}
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (s *Secrets) runContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}
