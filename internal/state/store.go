package state

import (
	"context"
	"time"
)

// MostValue is how many bytes a record may have: what a transaction of Consul takes in base64. etcd would take more.
const MostValue = 380 << 10

// Store is a server that keeps records for several control planes. Any goroutine may use it.
type Store interface {
	// String names the store for users, without credentials.
	String() string
	// Get returns a record as most members have it; one that is missing has revision 0.
	Get(ctx context.Context, name string) (Record, error)
	// List returns the records with names that begin with a prefix, at most MostRecords.
	List(ctx context.Context, prefix string) ([]Record, error)
	// Put writes a record: ErrConflict if it is another one than was read, ErrFenced if the lease of Fence has ended.
	Put(ctx context.Context, w Write) error
	// Watch calls changed once the watch stands, and after changes below a prefix, until ctx ends or the watch fails.
	Watch(ctx context.Context, prefix string, changed func()) error
	// Acquire takes the lease for a holder: ErrHeld while another one has it.
	Acquire(ctx context.Context, holder string, lasts time.Duration) (Lease, error)
	// Close ends all calls.
	Close()
}

// MostRecords is how many records List returns.
const MostRecords = 200_000

// Record is a named value.
type Record struct {
	Name     string
	Value    []byte
	Revision uint64 // of its last change; 0: there is none
}

// Write is a change of a record.
type Write struct {
	Name     string
	Value    []byte // nil: the record is removed
	Revision uint64 // that the record must have; 0: it must be missing
	Fence    Fence  // the lease that must be in force; zero: none
}

// Lease is held by one control plane at a time. It ends by itself if it is not renewed in time.
type Lease interface {
	Fence() Fence
	// Renew makes the lease last for its whole time again; ErrFenced: it has ended.
	Renew(ctx context.Context) error
	// Release ends it.
	Release(ctx context.Context) error
}

// Fence identifies a lease in the store.
type Fence struct {
	Revision uint64 // of the lease's record
	Session  string // of the lease, if the store names it
}
