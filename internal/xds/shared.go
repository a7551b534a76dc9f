package xds

// shared is what the machines of one server have in common: what many clients hold alike is kept once, and what many of
// them ask alike is looked up once. It is safe for concurrent use.
type shared struct {
	pages  *pagePool
	firsts *memories
}

func newShared() *shared { return &shared{pages: newPagePool(), firsts: newMemories()} }

// forget drops what rests on shelves that a turn edits. It is to be told of each turn, while nobody reads the library.
func (s *shared) forget(edited map[*shelf]struct{}) { s.firsts.forget(edited) }
