package work

import "sync"

// Setting is a value that a caller sets while a writer runs. Any goroutine may use it.
type Setting[T any] struct {
	equal func(a, b T) bool

	mu    sync.Mutex
	value T
	other chan struct{} // closed when the value changes
}

// NewSetting returns a setting with the zero value.
func NewSetting[T any](equal func(a, b T) bool) *Setting[T] {
	return &Setting[T]{equal: equal, other: make(chan struct{})}
}

// Set sets the value.
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

// Get returns the value, and a channel that is closed when the value changes.
func (s *Setting[T]) Get() (T, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.other
}

// Value returns the value.
func (s *Setting[T]) Value() T {
	v, _ := s.Get()
	return v
}

// Changed returns a channel that is closed when the value changes. Call it before Get or Value.
func (s *Setting[T]) Changed() <-chan struct{} {
	_, other := s.Get()
	return other
}
