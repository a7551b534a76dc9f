package source

import (
	"context"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// Source is where rows come from. Run hands over first everything there is, with Synced set on the last batch of it, then changes, until
// the context ends; it returns nil then, an error only if it can never work. It must not keep or change what it handed over.
type Source interface {
	Name() string
	Run(ctx context.Context, sink Sink) error
}

// Sink takes what a source found. Apply may be called from any goroutine, does not block on the mesh, and applies a
// batch as a whole: no turn sees half of it.
type Sink interface {
	Apply(Batch)
}

// Batch is a set of changes of one source.
type Batch struct {
	Source string

	Set    []*config.Object
	Delete []config.Key

	Services        []*mesh.Service // of registries that are not made of objects
	DeleteServices  []mesh.ServiceKey
	Endpoints       map[mesh.EndpointKey]mesh.Endpoint
	DeleteEndpoints []mesh.EndpointKey

	// Problems replaces all that the source said of each file (or other place) named here; an empty list takes it back.
	Problems map[string][]mesh.Problem

	Synced bool
}
