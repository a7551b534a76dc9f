package protocol

import (
	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
)

// Shared is what the machines of one server have in common: what many clients hold alike is kept once, and what many of
// them ask alike is looked up once. It is safe for concurrent use.
type Shared struct {
	pages  *slots.Pool
	firsts *firstCache
}

// NewShared returns what the machines of a new server share.
func NewShared() *Shared { return &Shared{pages: slots.NewPool(), firsts: newFirstCache()} }

// Forget drops the cached requests of shelves that a turn edits. It must be called for each turn, while no goroutine reads the
// library.
func (s *Shared) Forget(edited map[*library.Shelf]struct{}) { s.firsts.forget(edited) }
