package kube

import (
	"maps"
	"slices"
	"sync"

	"fairway/internal/config"
)

// scope decides which namespaces of the cluster are read. Kinds with namespaces wait for it before they are listed, so
// that nothing is handed over that must not be seen; then each learns which namespaces come and go.
type scope struct {
	root string // the root namespace, which is always read

	mu        sync.Mutex
	by        *config.Discovery // nil: it is not known yet
	complete  bool              // labels are those of all namespaces that there are
	labels    map[string]map[string]string
	selected  map[string]struct{} // namespaces that by selects; unless it selects all
	tags      *Tags               // other names of the revision
	onTags    func([]string)      // takes them each time they change
	tagsKnown bool                // tags are all that there are
	followers []*follower
}

// follower holds the changes that one kind has yet to take.
type follower struct {
	scope   *scope
	revised bool          // tags count
	more    chan struct{} // holds a token when there is something
	changed map[string]struct{}
	anew    bool // the whole selection is to be taken again
}

// Tags are the other names of a control plane's revision, as the cluster has them: a source with these in its Options writes them, and
// any goroutine may ask. The zero value has none.
type Tags struct {
	mu     sync.RWMutex
	sorted []string
}

// Has reports whether a tag names the revision.
func (t *Tags) Has(tag string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, is := slices.BinarySearch(t.sorted, tag)
	return is
}

// set replaces the tags, which are sorted, and reports whether they are others.
func (t *Tags) set(all []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all = slices.Compact(all); slices.Equal(all, t.sorted) {
		return false
	}
	t.sorted = all
	return true
}

func newScope(root string, tags *Tags, onTags func([]string)) *scope {
	return &scope{root: root, tags: tags, onTags: onTags, labels: map[string]map[string]string{}, selected: map[string]struct{}{}}
}

// follow returns a new follower. It is called before the scope learns anything.
func (s *scope) follow(revised bool) *follower {
	f := &follower{scope: s, revised: revised, more: make(chan struct{}, 1), changed: map[string]struct{}{}, anew: true}
	s.followers = append(s.followers, f)
	return f
}

// known reports whether the selection is known. mu is held.
func (s *scope) known() bool { return s.by != nil && (s.by.All() || s.complete) }

// selectBy takes the discovery selectors of the mesh configuration.
func (s *scope) selectBy(by *config.Discovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.by == nil
	if !first && by.Equal(s.by) {
		return
	}
	anew := first || s.by.All() || by.All()
	s.by = by
	if anew {
		clear(s.selected)
	}
	for name, l := range s.labels {
		s.settle(name, l)
	}
	if anew {
		s.again()
	}
}

// markComplete notes that all namespaces are known, or that they cannot be known.
func (s *scope) markComplete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.known()
	if s.complete = true; !was && s.known() {
		s.again()
	}
}

// again makes all followers take everything again. mu is held.
func (s *scope) again() {
	for _, f := range s.followers {
		f.anew = true
		f.wake()
	}
}

// tag sets the other names of the revision.
func (s *scope) tag(all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tags.set(all) {
		s.onTags(all)
		s.revise()
	}
}

// markTagsKnown notes that all tags are known, or that they cannot be known.
func (s *scope) markTagsKnown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tagsKnown {
		s.tagsKnown = true
		s.revise()
	}
}

// revise makes the followers that depend on tags take everything again. mu is held.
func (s *scope) revise() {
	for _, f := range s.followers {
		if f.revised {
			f.anew = true
			f.wake()
		}
	}
}

// label sets the labels of a namespace; nil: it does not exist any more.
func (s *scope) label(name string, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if labels == nil {
		delete(s.labels, name)
	} else {
		s.labels[name] = labels
	}
	s.settle(name, labels)
}

// settle selects a namespace, or not, and tells followers where that is new. mu is held.
func (s *scope) settle(name string, labels map[string]string) {
	if s.by.All() || name == s.root { // also while by is nil
		return
	}
	_, was := s.selected[name]
	is := labels != nil && s.by.Sees(name, labels)
	if is == was {
		return
	}
	if delete(s.selected, name); is {
		s.selected[name] = struct{}{}
	}
	for _, f := range s.followers {
		f.changed[name] = struct{}{}
		f.wake()
	}
}

func (f *follower) wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// picture is which namespaces one kind reads.
type picture struct {
	root  string
	all   bool
	names map[string]struct{}
}

func (p *picture) has(namespace string) bool {
	_, has := p.names[namespace]
	return has || p.all || namespace == "" || namespace == p.root
}

// take brings a picture up to date. come and gone are the namespaces that changed; anew says that everything is to be
// read again. While the selection is not known, known is false, and take does nothing.
func (f *follower) take(p *picture) (come, gone []string, anew, known bool) {
	s := f.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known() || f.revised && !s.tagsKnown {
		return nil, nil, false, false
	}
	if f.anew {
		f.anew = false
		clear(f.changed)
		*p = picture{root: s.root, all: s.by.All(), names: maps.Clone(s.selected)}
		return nil, nil, true, true
	}
	for name := range f.changed {
		_, is := s.selected[name]
		switch _, was := p.names[name]; {
		case is && !was:
			p.names[name] = struct{}{}
			come = append(come, name)
		case was && !is:
			delete(p.names, name)
			gone = append(gone, name)
		}
	}
	clear(f.changed)
	return come, gone, false, true
}
