package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/disk/watch"
	"fairway/internal/source"
)

// Options of a Source.
type Options struct {
	// Name is what batches and logs call the source; "file" when empty.
	Name string
	// Dirs are the directory trees to read. Each must be there at the start.
	Dirs []string
	// MeshConfig and MeshNetworks are files of their own; empty: none. They may come and go.
	MeshConfig   string
	MeshNetworks string
	// Decoder reads the documents. Required.
	Decoder *config.Decoder
	// Log takes what no file can be blamed for; nil discards it.
	Log *slog.Logger
	// Quiet is how long a file that is written in place must have been left alone before it is read, and how long a file
	// must be gone before its objects go; 50ms when 0. A file that is renamed into place is read at once.
	Quiet time.Duration
	// Clock tells the time; the zero value is the real one.
	Clock Clock
	// Files is the file system; nil means the machine's own.
	Files disk.Files
	// Unreadable, if set, is called with the number of files and folders that cannot be read, whenever it changes. It must
	// not block.
	Unreadable func(n int)
}

// Clock is time, for tests to hold still. A nil function means the real one.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Source reads files. It is made with New and run once.
type Source struct{ o Options }

var _ source.Source = (*Source)(nil)

// New checks the options. It fails without a decoder, and when there is a directory that cannot be read.
func New(o Options) (*Source, error) {
	if o.Decoder == nil {
		return nil, errors.New("file source: no decoder")
	}
	o.Dirs = slices.Clone(o.Dirs)
	for i, dir := range o.Dirs {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, fmt.Errorf("read rules: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("read rules: %s is not a directory", dir)
		}
		o.Dirs[i] = filepath.Clean(dir)
	}
	for _, path := range []*string{&o.MeshConfig, &o.MeshNetworks} {
		if *path != "" {
			*path = filepath.Clean(*path)
		}
	}
	return &Source{o: o.withDefaults()}, nil
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "file"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Quiet == 0 {
		o.Quiet = 50 * time.Millisecond
	}
	if o.Files == nil {
		o.Files = disk.OS
	}
	if o.Unreadable == nil {
		o.Unreadable = func(int) {}
	}
	if o.Clock.Now == nil {
		o.Clock.Now = time.Now
	}
	if o.Clock.After == nil {
		o.Clock.After = time.After
	}
	return o
}

// Name implements source.Source.
func (s *Source) Name() string { return s.o.Name }

// Run implements source.Source: everything there is first, then what changes. It returns an error only if the kernel ends the watch.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	w := watch.New()
	defer w.Close()
	r := newRunner(s.o, w, sink)
	r.ctx = ctx
	defer r.lane.running.Wait() // a file that is being read ends with ctx
	r.start()
	return r.loop(ctx)
}
