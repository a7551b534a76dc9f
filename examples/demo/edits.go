package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// followTimeout bounds how long traffic may take to follow an edit.
const followTimeout = 10 * time.Second

// most bounds what one changed route may cost: the virtual host and little else. Sending whole route tables, listeners or clusters
// is far above it.
var most = sent{resources: 2, bytes: 8 << 10}

// showEdits moves jason from one version to another, by editing the rule's file as an editor that saves atomically does, and measures until
// a real request is answered by the new one.
func showEdits(ctx context.Context, w *world, out io.Writer) error {
	var times []time.Duration
	version := "v2"
	for _, next := range []string{"v1", "v3", "v2", "v1", "v2"} {
		before, err := w.settled(ctx)
		if err != nil {
			return err
		}
		took, err := w.moveJason(ctx, version, next)
		if err != nil {
			return err
		}
		after, err := w.settled(ctx)
		if err != nil {
			return err
		}
		cost := after.minus(before)
		fmt.Fprintf(out, "  reviews.yaml: jason from %s to %s: real traffic followed %s after the rename; sent: %s\n", version,
			next, milliseconds(took), cost)
		if cost.resources < 1 || cost.resources > most.resources || cost.bytes > most.bytes {
			return fmt.Errorf("one changed route should cost at most %s, it cost %s", most, cost)
		}
		times, version = append(times, took), next
	}
	slices.Sort(times)
	fmt.Fprintf(out, "  median of %d edits: %s\n", len(times), milliseconds(times[len(times)/2]))
	return nil
}

// moveJason edits the rule and returns how long after the rename the new version answered the first request. From then on it must
// answer all requests.
func (w *world) moveJason(ctx context.Context, from, to string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, followTimeout, fmt.Errorf("traffic did not follow within %s", followTimeout))
	defer cancel()
	began, err := w.editRule("reviews.yaml", "subset: "+from+"}", "subset: "+to+"}")
	if err != nil {
		return 0, err
	}
	for {
		p, err := w.visit(ctx, jason)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			return 0, fmt.Errorf("a request failed during the edit: %w", err)
		case p.reviews() == to:
			return took, w.staysWith(ctx, to)
		case p.reviews() != from:
			return 0, fmt.Errorf("during the edit jason got %q (status %d, %s)", p.reviews(), p.Status, p.Error)
		}
	}
}

func (w *world) staysWith(ctx context.Context, version string) error {
	const n = 20
	got, err := w.visits(ctx, n, jason, page.reviews)
	if err == nil && got[version] != n {
		err = fmt.Errorf("after the edit jason is served by %v, not %s alone", got, version)
	}
	return err
}

// editRule replaces the first old in a rule's file and renames the new file over the rule's. It returns the moment just before the rename.
func (w *world) editRule(name, old, changed string) (time.Time, error) {
	path := filepath.Join(w.rules(), name)
	content, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("edit a rule: %w", err)
	}
	if !bytes.Contains(content, []byte(old)) {
		return time.Time{}, fmt.Errorf("edit a rule: %s has no %q", name, old)
	}
	tmp := filepath.Join(w.dir, name+".new") // the folder of rules never sees a half-written file
	if err := os.WriteFile(tmp, bytes.Replace(content, []byte(old), []byte(changed), 1), 0o644); err != nil {
		return time.Time{}, fmt.Errorf("edit a rule: %w", err)
	}
	began := time.Now()
	if err := os.Rename(tmp, path); err != nil {
		return began, fmt.Errorf("edit a rule: %w", err)
	}
	return began, nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
