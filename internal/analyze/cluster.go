package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fairway/internal/compile"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/table"
)

// halfMinute is the default time for a cluster to answer.
const halfMinute = 30 * time.Second

// live is a cluster that is being read, until end. Its methods are for the goroutine of Run.
type live struct {
	graph   *compile.Graph
	source  *kube.Source
	server  string
	within  <-chan time.Time
	stop    context.CancelFunc
	running sync.WaitGroup
	synced  chan struct{}
	again   chan struct{} // holds a token when some Secret has been looked for

	mu        sync.Mutex
	lookedUp  map[config.Key]bool // requested Secrets and ConfigMaps
	requested map[config.Key]bool
}

// follow reads the cluster, and returns once all of its objects have been added.
func (a *analysis) follow(ctx context.Context) (*live, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &live{
		graph: a.graph, server: a.o.Cluster.Host, within: time.After(cmp.Or(a.o.Within, halfMinute)), stop: stop,
		synced: make(chan struct{}), again: make(chan struct{}, 1), lookedUp: map[config.Key]bool{}, requested: map[config.Key]bool{},
	}
	var err error
	l.source, err = kube.New(kube.Options{
		Cluster: cluster, Domain: domain, Namespace: a.o.RootNamespace, Config: a.o.Cluster, Decoder: a.read.decoder,
		Revision: a.o.Revision, OnLookup: l.markRead,
	})
	if err != nil {
		stop()
		return nil, err
	}
	sink, err := a.set.Join(l.source.Name(), 0)
	if err != nil {
		stop()
		return nil, err
	}
	a.graph.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	applied := &behind{next: sink, files: a.fileObjects, synced: l.synced}
	l.running.Go(func() { _ = l.source.Run(ctx, applied) })
	if err := l.wait(ctx, l.synced, "all that is analyzed"); err != nil {
		l.end()
		return nil, err
	}
	return l, nil
}

// look reads of the cluster what no control plane reads.
func (a *analysis) look(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cmp.Or(a.o.Within, halfMinute))
	defer stop()
	held := func(kind, namespace, name string) bool {
		_, has := a.read.at[what{kind, namespace, name}]
		return has
	}
	return errors.Join(a.read.inventory.look(ctx, a.o, held), a.read.inventory.remoteSecrets(ctx, a.o))
}

// end ends the reading; nil: there is none.
func (l *live) end() {
	if l == nil {
		return
	}
	l.stop()
	l.running.Wait()
}

// markRead keeps that a Secret, or a ConfigMap with authorities, has been looked for.
func (l *live) markRead(k config.Key, known bool) {
	at := secret.KeyOf(k)
	if known {
		l.graph.Secrets.Read.Set(at, struct{}{})
	} else {
		l.graph.Secrets.Read.Delete(at)
	}
	l.mu.Lock()
	l.lookedUp[k] = known
	l.mu.Unlock()
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// secrets asks for the Secrets and ConfigMaps that are wanted by now, and settles once they have been looked for.
func (l *live) secrets(ctx context.Context) error {
	var more []config.Key
	l.graph.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, l.graph.WantedSecrets) {
			if key := k.Object(); !l.requested[key] {
				l.requested[key] = true
				more = append(more, key)
			}
		}
	})
	if len(more) == 0 {
		return ctx.Err()
	}
	l.source.Want(more, nil)
	for !l.has(more) {
		if err := l.wait(ctx, l.again, "the Secrets and ConfigMaps that Gateways and DestinationRules name"); err != nil {
			return err
		}
	}
	l.graph.Store.Settle()
	return ctx.Err()
}

func (l *live) has(keys []config.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(keys, func(k config.Key) bool { return !l.lookedUp[k] })
}

func (l *live) wait(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.within:
		return fmt.Errorf("the API server at %s has not said %s in time: see that it answers, and that the kubeconfig's user may read it; "+
			"--timeout gives it more time", l.server, what)
	}
}

// behind is the cluster's sink. It drops objects that files have too, as if the files had been applied.
type behind struct {
	next   source.Sink
	files  map[config.Key]bool
	synced chan struct{} // closed once all has been handed in
	once   sync.Once
}

// Apply passes an update on without the objects of the files.
func (b *behind) Apply(u source.Update) {
	u.Shards = slices.Clone(u.Shards)
	for i := range u.Shards {
		rows := &u.Shards[i].Rows
		rows.Objects = slices.DeleteFunc(slices.Clone(rows.Objects), func(o *config.Object) bool { return b.files[o.Key] })
		rows.Services = slices.DeleteFunc(slices.Clone(rows.Services), func(s *mesh.Service) bool {
			return b.files[config.Key{Kind: "Service", Namespace: s.Key.Namespace, Name: s.Key.Object}]
		})
	}
	b.next.Apply(u)
	if u.Synced {
		b.once.Do(func() { close(b.synced) })
	}
}
