package clusters

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/app/lasting"
	"fairway/internal/app/selectors"
	"fairway/internal/config"
	"fairway/internal/identity/review"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/source/kube/translate"
	"fairway/internal/source/shards"
)

// Options of Clusters. Tokens alone may be nil.
type Options struct {
	Own       string // name of the own cluster
	Domain    string // DNS suffix of services
	Decoder   *config.Decoder
	Shards    *shards.Set
	Selectors *selectors.Selectors
	Tokens    *review.Clusters // reviews the tokens of each cluster's pods; nil: no pod presents a token
	Dir       string           // folder for the last rows of clusters; empty: none
	Wait      time.Duration    // how long the start waits for each; 0: until it has been read
	TTL       time.Duration    // for how long rows of a cluster that does not answer count; 0: for ever
	MiB       int              // memory limit for the data of each cluster
	Meter     Meter
	Log       *slog.Logger
}

// Meter counts the events of clusters.
type Meter interface {
	kube.Meter
	// Secret is called when a Secret began to name a cluster (add), names it differently (update), or names it no more (delete).
	Secret(event string)
}

// Clusters are those beside the own one, as its Secrets name them: a source for each, which comes and goes with its Secret.
// None holds up another, nor the start for longer than Options.Wait.
type Clusters struct {
	o       Options
	sources *lasting.Sources

	mu    sync.Mutex
	named map[string]kube.Remote // by name
}

// New returns no clusters.
func New(o Options) *Clusters {
	c := &Clusters{o: o, named: map[string]kube.Remote{}}
	c.sources = lasting.New(o.Shards, lasting.Files{Dir: o.Dir, Suffix: ".cluster.json", Prefix: c.source("")}, o.Log)
	return c
}

// Run looks after the clusters, and ends their sources when ctx ends.
func (c *Clusters) Run(ctx context.Context) error { return c.sources.Run(ctx) }

// Set replaces the clusters.
func (c *Clusters) Set(all []kube.Remote) {
	named, specs := map[string]kube.Remote{}, make([]lasting.Spec, 0, len(all))
	for _, r := range all {
		named[r.Cluster] = r
		c.count(r)
		specs = append(specs, lasting.Spec{
			Name: c.source(r.Cluster), Sum: r.Sum, Wait: c.o.Wait, TTL: c.o.TTL,
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
		if c.o.Tokens != nil {
			c.o.Tokens.Remove(name)
		}
		c.o.Meter.Secret("delete")
		c.o.Log.Info("the cluster is read no more: no Secret names it", "cluster", name)
	}
	c.named = named
}

// count counts a cluster that is new, or that its Secret describes differently. Only Set's goroutine changes named.
func (c *Clusters) count(r kube.Remote) {
	switch before, known := c.named[r.Cluster]; {
	case !known:
		c.o.Meter.Secret("add")
	case before.Sum != r.Sum:
		c.o.Meter.Secret("update")
	}
}

// Phases returns how far each cluster is, by its name.
func (c *Clusters) Phases() map[string]string {
	out := map[string]string{}
	for _, one := range c.Standings() {
		out[one.ID] = one.SyncStatus
	}
	return out
}

// source returns the name of a cluster's source.
func (c *Clusters) source(name string) string { return translate.For(name, c.o.Domain).Name() }

// read makes the source of a cluster.
func (c *Clusters) read(r kube.Remote) (source.Source, func(), error) {
	s, err := kube.New(kube.Options{
		Cluster: r.Cluster, Domain: c.o.Domain, Namespace: c.o.Selectors.Root(), Config: r.Config, Decoder: c.o.Decoder, Log: c.o.Log,
		Meter: c.o.Meter, Remote: true, Scoped: true, Bounds: kube.RemoteBounds(c.o.MiB),
	})
	if err != nil {
		return nil, nil, err
	}
	if c.o.Tokens != nil {
		c.o.Tokens.Remove(r.Cluster) // the previous configuration no longer vouches for tokens
		if err := c.o.Tokens.Add(r.Cluster, r.Config); err != nil {
			c.o.Log.Error("tokens of the cluster cannot be reviewed", "cluster", r.Cluster, "secret", r.Secret, "error", err)
		}
	}
	c.o.Selectors.Add(s)
	return s, func() { c.o.Selectors.Remove(s) }, nil
}

// Count returns how many clusters are read: the own one, if there is one, and others.
func (c *Clusters) Count() (own, others int) {
	for _, s := range c.o.Shards.Standings() {
		if s.Source == c.source(c.o.Own) {
			own = 1
		}
	}
	return own, c.sources.Count()
}

// Standings lists how far each cluster is, the own one first.
func (c *Clusters) Standings() []page.RemoteCluster {
	phases := map[string]string{}
	for _, s := range c.o.Shards.Standings() {
		phases[s.Source] = s.Phase
	}
	by, _ := os.Hostname() // left out if it is unknown
	out := []page.RemoteCluster{}
	if phase, has := phases[c.source(c.o.Own)]; has {
		out = append(out, page.RemoteCluster{ID: c.o.Own, SyncStatus: phase, IstiodID: by})
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
