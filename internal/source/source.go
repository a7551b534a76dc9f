package source

import (
	"cmp"
	"context"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// Source is where rows come from. Run hands over first everything there is, with Synced set on the last Update of it,
// then changes, until the context ends; it returns nil then, an error only if it can never work. It must not keep or
// change what it handed over.
type Source interface {
	Name() string
	Run(ctx context.Context, sink Sink) error
}

// Sink takes what one source found. Apply may be called from any goroutine, does not block on the mesh, and applies an
// Update as a whole: no turn sees half of it.
type Sink interface {
	Apply(Update)
}

// Paced is a Sink that reports when an Update is in force. A source with a large change hands it on in parts and waits between them,
// so that no turn is long and the changes of other sources go in between.
type Paced interface {
	Sink
	// InForce returns a channel that is closed once a turn has taken in all that was handed over so far.
	InForce() <-chan struct{}
}

// Update is what a source hands over at once. It holds rows, not differences: a row without changes has no effect.
type Update struct {
	Shards []Shard // in this order
	// Problems replaces all problems of each file (or other place) named here; an empty list takes it back.
	Problems map[string][]mesh.Problem
	// Synced says that everything there was at the start has been handed over, with this Update.
	Synced bool
	// Stale says why the rows are not kept up to date for now; Fresh says that they are again.
	Stale string
	Fresh bool
	// LeftOut is how many things the source leaves out of what its server has; nil: as many as before.
	LeftOut *uint64
}

// ShardKey names what a source hands in as one: a part of a kind of a cluster. Sources choose the words.
type ShardKey struct {
	Cluster string
	Kind    string // of what the registry hands in
	Part    string // a file, a slice, a namespace
}

// CompareShardKey orders by cluster, kind, part.
func CompareShardKey(a, b ShardKey) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Part, b.Part))
}

// Holds reports whether a shard is k itself or below it: a key without Part means all parts of its kind, one without Kind
// all kinds of its cluster, and the zero key everything of the source.
func (k ShardKey) Holds(o ShardKey) bool {
	return (k.Cluster == o.Cluster || k == ShardKey{}) && (k.Kind == o.Kind || k.Kind == "" && k.Part == "") &&
		(k.Part == o.Part || k.Part == "")
}

// Shard is the part of an Update about one shard.
type Shard struct {
	Key ShardKey
	// Whole says that Rows are all there is of the shard, and that there is nothing below it: its rows that are not among
	// them go. So one Shard tells of a relist, or of a cluster that is gone. Otherwise Rows are added or take the place
	// of those of their keys, once Gone has gone.
	Whole bool
	Rows  Rows
	Gone  Keys
}

// Rows are rows of all kinds. Everything that they point to is immutable.
type Rows struct {
	Objects    []*config.Object // what users write
	Services   []*mesh.Service
	Slices     []*mesh.Slice // endpoints of services
	Workloads  []*mesh.Workload
	Machines   []mesh.Machine
	Namespaces []mesh.Namespace
}

// Len returns how many there are.
func (r Rows) Len() int {
	return len(r.Objects) + len(r.Services) + len(r.Slices) + len(r.Workloads) + len(r.Machines) + len(r.Namespaces)
}

// Keys name rows that are gone. One that is not there changes nothing.
type Keys struct {
	Objects    []config.Key
	Services   []mesh.ServiceKey
	Slices     []mesh.SliceKey
	Workloads  []mesh.WorkloadKey
	Machines   []mesh.MachineKey
	Namespaces []mesh.NamespaceKey
}

// Len returns how many there are.
func (k Keys) Len() int {
	return len(k.Objects) + len(k.Services) + len(k.Slices) + len(k.Workloads) + len(k.Machines) + len(k.Namespaces)
}

// Place is where a source found problems: a file, or whatever the source reads from.
type Place struct{ Source, Name string }

// ComparePlace orders by source, then name.
func ComparePlace(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
}

// PieceRows is how many rows go on in one piece. A turn with so many new services takes about 60 ms on one core.
const PieceRows = 500

// Batch is the changes in the rows of all sources, once it is settled which version of each row counts.
type Batch struct {
	Set  Rows
	Gone Keys // disjoint from Set
	// Problems replaces all problems of each place named here.
	Problems map[Place][]mesh.Problem
	// Weights estimates how many rows are made of an object that is set or gone, if they are many. Sources leave it empty.
	Weights map[config.Key]int
	// Synced says that with this Batch everything is there that sources had to hand over at the start.
	Synced bool
}

// Empty reports whether the batch holds nothing.
func (b Batch) Empty() bool { return b.Set.Len()+b.Gone.Len()+len(b.Problems) == 0 && !b.Synced }

// Produces estimates how many rows are made of the batch: its own, and those in Weights.
func (b Batch) Produces() int {
	all := b.Set.Len() + b.Gone.Len()
	for _, w := range b.Weights {
		all += w
	}
	return all
}

// Keeper is a Settled that knows which objects it has.
type Keeper interface {
	Settled
	// Has reports whether some version of an object was handed to it and not taken back.
	Has(config.Key) bool
}

// Settled takes batches. Apply may be called from any goroutine, and does not block on the mesh.
type Settled interface {
	Apply(Batch)
}
