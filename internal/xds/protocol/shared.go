package protocol

import (
	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
)

// Shared is the state that the machines of one server share: equal state of many clients is kept once, and equal requests of many
// clients are looked up once. It is safe for concurrent use.
type Shared struct {
	pages  *slots.Pool
	firsts *firstCache
}

// NewShared returns the shared state for the machines of a new server.
func NewShared() *Shared { return &Shared{pages: slots.NewPool(), firsts: newFirstCache()} }

// Forget drops the cached requests of shelves that a turn edits. It must be called for each turn, while no goroutine reads the
// library.
func (s *Shared) Forget(edited map[*library.Shelf]struct{}) { s.firsts.forget(edited) }
