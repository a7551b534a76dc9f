package app

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/app/lasting"
	"fairway/internal/config"
	"fairway/internal/identity/review"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/source/kube/translate"
	"fairway/internal/source/shards"
)

// clusters are those beside the own one, as its Secrets name them: a source each, which comes and goes with its Secret.
// None holds up another, nor the start for longer than wait.
type clusters struct {
	own, domain string
	decoder     *config.Decoder
	shards      *shards.Set
	discover    *discovers
	wait        time.Duration
	ttl         time.Duration // for which what one that does not answer said counts; 0: for ever
	log         *slog.Logger
	tokens      *review.Clusters // has tokens of their pods reviewed; nil: nobody shows any
	sources     *lasting.Sources

	mu    sync.Mutex
	named map[string]kube.Remote // by name
	mib   int                    // of memory for what is read of each
}

// stateDir is the folder that keeps what sources said last unless a flag names another; empty: none.
func stateDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd's StateDirectory=
		return filepath.Join(dir, "clusters")
	}
	return ""
}

func newClusters(opts Options, decoder *config.Decoder, all *shards.Set, seeing *discovers) *clusters {
	c := &clusters{
		own: opts.ClusterID, domain: opts.Domain, decoder: decoder, shards: all, discover: seeing, wait: opts.ClusterWait, log: opts.Log,
		ttl: opts.ClusterTTL, mib: opts.ClusterMiB, named: map[string]kube.Remote{},
	}
	c.sources = lasting.New(all, lasting.Files{Dir: opts.ClusterDir, Suffix: ".cluster.json", Prefix: c.source("")}, opts.Log)
	return c
}

// run looks after the clusters, and ends their sources when ctx ends.
func (c *clusters) run(ctx context.Context) error { return c.sources.Run(ctx) }

// set says which clusters there are from now on.
func (c *clusters) set(all []kube.Remote) {
	named, specs := map[string]kube.Remote{}, make([]lasting.Spec, 0, len(all))
	for _, r := range all {
		named[r.Cluster] = r
		specs = append(specs, lasting.Spec{
			Name: c.source(r.Cluster), Sum: r.Sum, Wait: c.wait, TTL: c.ttl,
			Make: func() (source.Source, func(), error) { return c.read(r) },
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := c.sources.Set(specs)
	for name := range c.named {
		if !slices.Contains(gone, c.source(name)) {
			continue
		}
		if c.tokens != nil {
			c.tokens.Remove(name)
		}
		c.log.Info("the cluster is read no more: no Secret names it", "cluster", name)
	}
	c.named = named
}

// source is the name of a cluster's.
func (c *clusters) source(name string) string { return translate.For(name, c.domain).Name() }

// read makes the source of a cluster.
func (c *clusters) read(r kube.Remote) (source.Source, func(), error) {
	s, err := kube.New(kube.Options{
		Cluster: r.Cluster, Domain: c.domain, Namespace: c.discover.root, Config: r.Config, Decoder: c.decoder, Log: c.log,
		Remote: true, Scoped: true, Bounds: kube.RemoteBounds(c.mib),
	})
	if err != nil {
		return nil, nil, err
	}
	if c.tokens != nil {
		c.tokens.Remove(r.Cluster) // what vouched for them before does so no more
		if err := c.tokens.Add(r.Cluster, r.Config); err != nil {
			c.log.Error("tokens of the cluster cannot be reviewed", "cluster", r.Cluster, "secret", r.Secret, "error", err)
		}
	}
	c.discover.add(s)
	return s, func() { c.discover.remove(s) }, nil
}

// count is how many clusters are read: the own one, if there is one, and others.
func (c *clusters) count() (own, others int) {
	for _, s := range c.shards.Standings() {
		if s.Source == c.source(c.own) {
			own = 1
		}
	}
	return own, c.sources.Count()
}

// standings tells how far each cluster is, the own one first.
func (c *clusters) standings() []page.RemoteCluster {
	phases := map[string]string{}
	for _, s := range c.shards.Standings() {
		phases[s.Source] = s.Phase
	}
	by, _ := os.Hostname() // where it is unknown it is not told
	out := []page.RemoteCluster{}
	if phase, has := phases[c.source(c.own)]; has {
		out = append(out, page.RemoteCluster{ID: c.own, SyncStatus: phase, IstiodID: by})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.named)) {
		known, runs := c.sources.Of(c.source(name))
		if !runs {
			continue
		}
		one := page.RemoteCluster{
			ID: name, SecretName: c.named[name].Secret, SyncStatus: phases[c.source(name)], IstiodID: by, Kept: known.Kept,
		}
		if !known.AsOf.IsZero() {
			asOf := known.AsOf.UTC()
			one.AsOf, one.AgeSeconds = &asOf, int(time.Since(asOf).Seconds())
		}
		out = append(out, one)
	}
	return out
}
