package app

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
	"fairway/internal/source/kept"
	"fairway/internal/source/shards"
)

// This file keeps what other clusters said last in files, a file a cluster, and forgets what is too old.

// Times of that.
const (
	tendEvery = 30 * time.Second // how often clusters are looked after, at most; with a short life of what is known, more often
	writeLate = 10 * time.Minute // how old a file gets that says what is still so
)

// clusterDir is the folder of those files unless a flag names another; empty: none.
func clusterDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd's StateDirectory=
		return filepath.Join(dir, "clusters")
	}
	return ""
}

// keeping is how far what is known of a cluster is kept.
type keeping struct {
	changes uint64    // of its source, as the file has them
	written time.Time // of the file; zero: none has been written since the start
	trouble string    // why it is not kept, or could not be read; empty: it is
}

// clusterFiles is the folder; without one nothing is kept.
type clusterFiles struct{ dir string }

const clusterSuffix = ".cluster.json"

// path is the file of a cluster, whatever its name holds.
func (f clusterFiles) path(cluster string) string {
	return filepath.Join(f.dir, url.PathEscape(cluster)+clusterSuffix)
}

// remove takes a cluster's file away.
func (f clusterFiles) remove(cluster string, log *slog.Logger) {
	if f.dir == "" {
		return
	}
	if err := os.Remove(f.path(cluster)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("what was kept of a cluster cannot be taken away", "cluster", cluster, "error", err)
	}
}

// only takes away the files of all clusters but some.
func (f clusterFiles) only(clusters []string, log *slog.Logger) {
	if f.dir == "" {
		return
	}
	entries, _ := os.ReadDir(f.dir) // a folder that is not there has none
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), clusterSuffix)
		if cluster, err := url.PathUnescape(name); is && err == nil && !slices.Contains(clusters, cluster) {
			f.remove(cluster, log)
		}
	}
}

// interval is how often clusters are looked after.
func (c *clusters) interval() time.Duration {
	if c.ttl <= 0 {
		return tendEvery
	}
	return min(max(c.ttl/10, 50*time.Millisecond), tendEvery)
}

// restore hands in what is kept of a cluster, and says as of when that is; the zero time where nothing is, or it is too old.
func (c *clusters) restore(cluster string, log *slog.Logger) (time.Time, keeping) {
	if c.kept.dir == "" {
		return time.Time{}, keeping{}
	}
	content, err := safefile.Read(c.kept.path(cluster), kept.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, keeping{}
	}
	var was kept.Cluster
	if err == nil {
		was, err = kept.Decode(c.source(cluster), content)
	}
	now := time.Now()
	switch {
	case err != nil:
		log.Error("what was kept of the cluster cannot be used", "file", c.kept.path(cluster), "error", err)
		return time.Time{}, keeping{trouble: "not read: " + printable.Text(err.Error(), printable.Long)}
	case c.old(was.AsOf, now):
		log.Info("what was kept of the cluster is too old", "asOf", was.AsOf)
		c.kept.remove(cluster, log)
		return time.Time{}, keeping{}
	case was.AsOf.After(now): // another clock wrote it, or somebody: it counts no longer than what is written now
		was.AsOf = now
	}
	c.shards.Restore(c.source(cluster), was.Shards)
	log.Info("the cluster is as it was read last, until it is read", "asOf", was.AsOf)
	return was.AsOf, keeping{written: was.AsOf}
}

// old says whether what was right then counts no more.
func (c *clusters) old(asOf, now time.Time) bool { return c.ttl > 0 && now.Sub(asOf) > c.ttl }

// tend notes which clusters are read, writes down what changed of these, and has those start over whose last words are too old.
func (c *clusters) tend(now time.Time) {
	phases := map[string]string{}
	for _, s := range c.shards.Standings() {
		phases[s.Source] = s.Phase
	}
	for _, r := range c.names() {
		c.tendOne(r, phases[c.source(r)], now)
	}
}

func (c *clusters) names() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.running {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (c *clusters) tendOne(name, phase string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.running[name]
	switch {
	case one == nil:
	case phase == shards.Synced.String():
		one.asOf = now
		c.write(name, one)
	case !one.asOf.IsZero() && c.old(one.asOf, now):
		c.log.Warn("what is known of a cluster that does not answer is forgotten", "cluster", name, "asOf", one.asOf)
		one.end()
		delete(c.running, name)
		c.shards.Leave(c.source(name), false)
		c.kept.remove(name, c.log)
		c.start(one.Remote, time.Time{})
	}
}

// write writes down what a cluster's source has handed in, if that has changed or was written long ago. mu is held.
func (c *clusters) write(name string, one *remoteCluster) {
	if c.kept.dir == "" {
		return
	}
	since := one.changes
	late := writeLate
	if c.ttl > 0 {
		late = min(late, c.ttl/4)
	}
	if one.asOf.Sub(one.written) > late {
		since = 0
	}
	said, changes := c.shards.Held(c.source(name), since)
	if said == nil {
		return
	}
	content, err := kept.Encode(kept.Cluster{Registry: c.source(name), AsOf: one.asOf, Shards: said})
	if err == nil {
		err = safefile.Write(c.kept.path(name), content, 0o600)
	}
	trouble := ""
	if err != nil {
		trouble = "not written: " + printable.Text(err.Error(), printable.Long)
		if one.trouble != trouble {
			c.log.Error("what is known of the cluster is not kept", "cluster", name, "error", err)
		}
	}
	one.keeping = keeping{changes, one.asOf, trouble}
}

// page shows a cluster beside the own one.
func (o *remoteCluster) page(name, phase, by string, now time.Time) page.RemoteCluster {
	out := page.RemoteCluster{ID: name, SecretName: o.Secret, SyncStatus: phase, IstiodID: by}
	if !o.asOf.IsZero() {
		asOf := o.asOf.UTC()
		out.AsOf, out.AgeSeconds = &asOf, int(now.Sub(asOf).Seconds())
	}
	switch {
	case o.trouble != "":
		out.Kept = o.trouble
	case !o.written.IsZero():
		out.Kept = "on disk, as of " + o.written.UTC().Format(time.RFC3339)
	}
	out.Kept = cmp.Or(out.Kept, "in memory")
	return out
}
