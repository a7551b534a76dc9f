package selectors

import (
	"cmp"
	"context"
	"sync"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/table"
)

// Selectors tells sources which namespaces the mesh configuration in force selects. It follows the tables. The first time, it waits until
// all sources that may have a mesh configuration have been read, so that no namespace is read by mistake.
type Selectors struct {
	root string
	mesh *input.Objects
	// read has the origins that have been read. It is a table, so that a row of it comes with or after what its source handed over before.
	read *table.Input[Origin, struct{}]

	// Of the owner of the turns.
	object *config.Object  // the mesh configuration in force; nil: there is none
	waits  map[Origin]bool // that have not been read

	mu      sync.Mutex
	now     *config.Discovery // nil: it is not known yet
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

// New returns selectors that follow the mesh configurations in a table of a store. root is the root namespace.
func New(root string, s *table.Store, meshes *input.Objects) *Selectors {
	return &Selectors{
		root: root, mesh: meshes, read: table.NewInput(s, "selectors/read", cmp.Compare[Origin], table.Same[struct{}]),
		waits: map[Origin]bool{Files: true, Cluster: true}, sources: map[Source]struct{}{},
	}
}

// Root returns the root namespace.
func (d *Selectors) Root() string { return d.root }

// Follow passes on the turn's changes of the mesh configuration. The owner of the turns calls it after each turn.
func (d *Selectors) Follow() {
	changed := false
	for c := range table.Changes(d.read.Table) {
		delete(d.waits, c.Key)
		changed = true
	}
	for c := range table.Changes(d.mesh) {
		if c.Key.Kind == config.MeshConfig {
			d.object, changed = c.New, true
		}
	}
	if !changed || len(d.waits) > 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = config.DiscoveryOf(d.object, d.root)
	for s := range d.sources {
		s.Discover(d.now)
	}
}

// Read marks an origin as read. The turn that Follow sees next has everything that the origin handed over before.
func (d *Selectors) Read(what Origin) { d.read.Set(what, struct{}{}) }

// Add tells a source from now on.
func (d *Selectors) Add(s Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources[s] = struct{}{}
	if d.now != nil {
		s.Discover(d.now)
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
