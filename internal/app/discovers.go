package app

import (
	"sync"

	"fairway/internal/config"
	"fairway/internal/source"
)

// discovers tells sources which namespaces the mesh configuration that counts has them see. It stands between the sources and
// the door, so that it knows as soon as what they say has been settled; the first time once all have been read that
// may have a mesh configuration, so that nothing is seen by mistake.
type discovers struct {
	root string
	next source.Settled

	mu      sync.Mutex
	mesh    *config.Object // that counts; nil: nobody wrote one
	waits   map[string]bool
	sources map[discoverer]struct{}
	tagged  func(string) bool // whether the revision has a name, by the own cluster; nil: there is none. Set once
}

// discoverer is a source that reads some namespaces alone.
type discoverer interface {
	// Discover says which. It does not block.
	Discover(*config.Discovery)
}

// What may have a mesh configuration at the start.
const (
	meshFiles   = "files"
	meshCluster = "cluster"
)

func newDiscovers(root string, next source.Settled) *discovers {
	return &discovers{
		root: root, next: next, waits: map[string]bool{meshFiles: true, meshCluster: true}, sources: map[discoverer]struct{}{},
	}
}

// Apply passes a batch on.
func (d *discovers) Apply(b source.Batch) {
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
		d.tell()
	}
}

// tell tells all sources. mu is held.
func (d *discovers) tell() {
	if len(d.waits) > 0 {
		return
	}
	now := config.DiscoveryOf(d.mesh, d.root)
	for s := range d.sources {
		s.Discover(now)
	}
}

// read says that something that may have a mesh configuration has been read.
func (d *discovers) read(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits[what] {
		delete(d.waits, what)
		d.tell()
	}
}

// add has a source told from now on.
func (d *discovers) add(s discoverer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources[s] = struct{}{}
	if len(d.waits) == 0 {
		s.Discover(config.DiscoveryOf(d.mesh, d.root))
	}
}

// remove has a source told no more.
func (d *discovers) remove(s discoverer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sources, s)
}

// files is the sink of the files' source, which tells when they have been read.
func (d *discovers) files(to source.Sink) source.Sink { return meshSink{to, d} }

type meshSink struct {
	source.Sink
	discovers *discovers
}

func (s meshSink) Apply(u source.Update) {
	s.Sink.Apply(u)
	if u.Synced {
		s.discovers.read(meshFiles)
	}
}
