// Package walk runs the control plane in this process, makes one change at a time, and records the code that ran from the change until a
// connected proxy acknowledged it.
package walk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
)

// Walk makes each change the given number of times, and writes the counters of each to a folder of its own in out.
func Walk(ctx context.Context, out string, rounds int) (err error) {
	if out == "" {
		return errors.New("-out: no folder is given")
	}
	w, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	for _, c := range w.changes() {
		for round := range rounds {
			dir := filepath.Join(out, c.name, strconv.Itoa(round))
			if err := w.measure(ctx, c, dir); err != nil {
				return fmt.Errorf("%s, round %d: %w", c.name, round, err)
			}
		}
	}
	return nil
}

// attempts is how many times a change is made until its acknowledgement comes within the measurement.
const attempts = 5

// measure makes a change and writes which code ran for it to a folder.
func (w *world) measure(ctx context.Context, c *change, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for range attempts {
		if c.made {
			if err := w.follow(ctx, c.before); err != nil {
				return err
			}
		}
		c.made = true
		if err := w.still(ctx); err != nil {
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := w.follow(ctx, c.make); err != nil {
			return err
		}
		if err := w.still(ctx); err != nil {
			return err
		}
		if err := coverage.WriteCountersDir(dir); err != nil {
			return err
		}
		if w.acknowledged() {
			return coverage.WriteMetaDir(dir)
		}
		// The machine was busy: the program was idle before the acknowledgement came.
		if err := empty(dir); err != nil {
			return err
		}
	}
	return fmt.Errorf("the proxy's acknowledgement was not read soon enough in any of %d attempts", attempts)
}

func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, f := range all {
		err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
	}
	return err
}
