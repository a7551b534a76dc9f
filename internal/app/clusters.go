package app

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/identity/review"
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
	log         *slog.Logger
	tokens      *review.Clusters // has tokens of their pods reviewed; nil: nobody shows any

	ttl  time.Duration // for which what one that does not answer said counts; 0: for ever
	kept clusterFiles

	mu      sync.Mutex                // held while clusters come and go: one set at a time
	running map[string]*remoteCluster // by name; nil: the program ends
}

// remoteCluster is one that is read.
type remoteCluster struct {
	kube.Remote
	stop context.CancelFunc
	done chan struct{} // closed once its source has ended
	asOf time.Time     // when what is known of it was known last to be right; zero: nothing is known
	keeping
}

func newClusters(opts Options, decoder *config.Decoder, all *shards.Set, seeing *discovers) *clusters {
	return &clusters{
		own: opts.ClusterID, domain: opts.Domain, decoder: decoder, shards: all, discover: seeing, wait: opts.ClusterWait, log: opts.Log,
		ttl: opts.ClusterTTL, kept: clusterFiles{opts.ClusterDir}, running: map[string]*remoteCluster{},
	}
}

// run looks after what is known of the clusters, and ends all clusters' sources when ctx ends.
func (c *clusters) run(ctx context.Context) error {
	tick := time.NewTicker(c.interval())
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		c.tend(time.Now())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.running {
		one.end()
	}
	c.running = nil
	return nil
}

// set says which clusters there are from now on. What a cluster that is reached otherwise now has said stays until it
// is read again; what one has said that is named no more goes.
func (c *clusters) set(all []kube.Remote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return
	}
	now := map[string]kube.Remote{}
	for _, r := range all {
		now[r.Cluster] = r
	}
	asOf := map[string]time.Time{} // of those that are reached otherwise now
	for name, one := range c.running {
		r, stays := now[name]
		if stays && r.Sum == one.Sum {
			one.Secret = r.Secret
			continue
		}
		one.end()
		asOf[name] = one.asOf
		delete(c.running, name)
		c.shards.Leave(c.source(name), stays)
		if c.tokens != nil {
			c.tokens.Remove(name)
		}
		if !stays {
			c.kept.remove(name, c.log)
			c.log.Info("the cluster is read no more: no Secret names it", "cluster", name)
		}
	}
	for _, r := range all {
		if c.running[r.Cluster] == nil {
			c.start(r, asOf[r.Cluster])
		}
	}
	c.kept.only(slices.Collect(maps.Keys(now)), c.log)
}

// source is the name of a cluster's.
func (c *clusters) source(name string) string { return translate.For(name, c.domain).Name() }

// start has a cluster read. What is kept of it counts until then, unless asOf says that something is known. mu is held.
func (c *clusters) start(r kube.Remote, asOf time.Time) {
	log := c.log.With("cluster", r.Cluster, "secret", r.Secret)
	keeps := keeping{}
	if asOf.IsZero() {
		asOf, keeps = c.restore(r.Cluster, log)
	}
	s, err := kube.New(kube.Options{
		Cluster: r.Cluster, Domain: c.domain, Namespace: c.discover.root, Config: r.Config, Decoder: c.decoder, Log: c.log,
		Remote: true, Scoped: true,
	})
	if err != nil {
		log.Error("the cluster cannot be read", "error", err)
		return
	}
	sink, err := c.shards.Join(s.Name(), c.wait)
	if err != nil {
		log.Error("the cluster cannot be read", "error", err)
		return
	}
	if c.tokens != nil {
		if err := c.tokens.Add(r.Cluster, r.Config); err != nil {
			log.Error("tokens of the cluster cannot be reviewed", "error", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background()) // until end
	one := &remoteCluster{Remote: r, stop: stop, done: make(chan struct{}), asOf: asOf, keeping: keeps}
	c.running[r.Cluster] = one
	log.Info("another cluster is read")
	c.discover.add(s)
	go func() {
		defer close(one.done)
		defer c.discover.remove(s)
		if err := s.Run(ctx, sink); err != nil {
			log.Error("the cluster is read no more", "error", err)
		}
	}()
}

func (o *remoteCluster) end() {
	o.stop()
	<-o.done
}

// count is how many clusters are read: the own one, if there is one, and others.
func (c *clusters) count() (own, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards.Standings() {
		if s.Source == c.source(c.own) {
			own = 1
		}
	}
	return own, len(c.running)
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
	for _, name := range slices.Sorted(maps.Keys(c.running)) {
		out = append(out, c.running[name].page(name, phases[c.source(name)], by, time.Now()))
	}
	return out
}
