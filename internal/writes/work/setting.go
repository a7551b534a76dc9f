package work

import "sync"

// Setting is what a writer is told from outside and goes by while it runs. Any goroutine may use it.
type Setting[T any] struct {
	equal func(a, b T) bool

	mu    sync.Mutex
	value T
	other chan struct{} // closed when value is another
}

// NewSetting returns one that has the zero value.
func NewSetting[T any](equal func(a, b T) bool) *Setting[T] {
	return &Setting[T]{equal: equal, other: make(chan struct{})}
}

// Set says what holds from now on.
func (s *Setting[T]) Set(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.equal(v, s.value) {
		return
	}
	s.value = v
	close(s.other)
	s.other = make(chan struct{})
}

// Get is what holds, and what is closed when that is another.
func (s *Setting[T]) Get() (T, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.other
}

// Value is what holds.
func (s *Setting[T]) Value() T {
	v, _ := s.Get()
	return v
}

// Changed is closed when what Get gives is another. It is asked for before Get is.
func (s *Setting[T]) Changed() <-chan struct{} {
	_, other := s.Get()
	return other
}
