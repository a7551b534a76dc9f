package selectors

import (
	"context"
	"sync"

	"fairway/internal/config"
	"fairway/internal/source"
)

// Selectors tells sources which namespaces the mesh configuration in force selects. It sits between the sources and the door, so it
// learns of a mesh configuration as soon as it is settled. The first time, it waits until all sources that may have a mesh
// configuration have been read, so that no namespace is read by mistake.
type Selectors struct {
	root string
	next source.Settled

	mu      sync.Mutex
	mesh    *config.Object  // in force; nil: there is none
	waits   map[Origin]bool // that have not been read
	sources map[Source]struct{}
}

// Source is a source that reads some namespaces alone.
type Source interface {
	// Discover says which. It does not block.
	Discover(*config.Discovery)
}

// Origin is a place that may have a mesh configuration at the start.
type Origin string

// Origins that are waited for.
const (
	Files   Origin = "files"
	Cluster Origin = "cluster"
)

// New returns selectors that pass batches on to next. root is the root namespace.
func New(root string, next source.Settled) *Selectors {
	return &Selectors{root: root, next: next, waits: map[Origin]bool{Files: true, Cluster: true}, sources: map[Source]struct{}{}}
}

// Root returns the root namespace.
func (d *Selectors) Root() string { return d.root }

// Apply passes a batch on.
func (d *Selectors) Apply(b source.Batch) {
	d.next.Apply(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.mesh
	for _, k := range b.Gone.Objects {
		if k.Kind == config.MeshConfig {
			d.mesh = nil
		}
	}
	for _, o := range b.Set.Objects {
		if o.Kind == config.MeshConfig {
			d.mesh = o
		}
	}
	if d.mesh != before {
		d.notifySources()
	}
}

// notifySources tells all sources. mu is held.
func (d *Selectors) notifySources() {
	if len(d.waits) > 0 {
		return
	}
	now := config.DiscoveryOf(d.mesh, d.root)
	for s := range d.sources {
		s.Discover(now)
	}
}

// Read marks an origin as read.
func (d *Selectors) Read(what Origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits[what] {
		delete(d.waits, what)
		d.notifySources()
	}
}

// Add tells a source from now on.
func (d *Selectors) Add(s Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources[s] = struct{}{}
	if len(d.waits) == 0 {
		s.Discover(config.DiscoveryOf(d.mesh, d.root))
	}
}

// Remove stops sending selectors to a source.
func (d *Selectors) Remove(s Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sources, s)
}

// Origin returns a source like s that marks an origin as read once it is synced.
func (d *Selectors) Origin(s source.Source, what Origin) source.Source {
	return originSource{s, d, what}
}

type originSource struct {
	source.Source
	selectors *Selectors
	origin    Origin
}

func (s originSource) Run(ctx context.Context, sink source.Sink) error {
	return s.Source.Run(ctx, originSink{sink, s.selectors, s.origin})
}

type originSink struct {
	source.Sink
	selectors *Selectors
	origin    Origin
}

func (s originSink) Apply(u source.Update) {
	s.Sink.Apply(u)
	if u.Synced {
		s.selectors.Read(s.origin)
	}
}
