// Package bounded bounds the names of clusters that become labels of metrics: users name clusters. First is for metrics of the clusters
// that there are, Set for counters, which stay. It must not know metrics. Start reading at First.
package bounded

import (
	"slices"
	"sync"

	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// Most is how many clusters have series of one metric; a name may have nameBytes bytes.
const (
	Most      = 200
	nameBytes = 253
)

// fits reports whether a name can be a label.
func fits(name string) bool { return name != "" && printable.Is(name, nameBytes) }

// First returns the clusters that have series: the first by name. It changes names.
func First(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return !fits(name) })
	slices.Sort(names)
	return names[:min(len(names), Most)]
}

// Set keeps the clusters that have had a series. The zero value is empty; any goroutine may use it.
type Set struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// Label returns the label of a cluster: its name, or xdstype.Other if it cannot be a label, or came after Most others.
func (s *Set) Label(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.names[name]; known {
		return name
	}
	if len(s.names) == Most || !fits(name) {
		return xdstype.Other
	}
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	s.names[name] = struct{}{}
	return name
}
