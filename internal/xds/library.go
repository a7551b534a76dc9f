package xds

import (
	"fmt"
	"sync"
	"time"
)

// Change is one edit of one shelf: a resource put under its name, a whiteout that hides the name on lower shelves of
// a stack, or, with neither, the removal of either.
type Change struct {
	Shelf    ShelfKey
	Type     string
	Name     string
	Resource *Resource
	Whiteout bool
}

// Attachment is what a proxy sees: for each type URL the keys of its shelves, from lowest to highest precedence.
type Attachment struct {
	Stacks map[string][]ShelfKey
}

// Attach gives a proxy its stacks, in place of those it had. Without To the proxy is let go: its streams stay as they
// are, and receive nothing until it is attached again.
type Attach struct {
	Proxy ProxyID
	To    *Attachment
}

// ProxyID names a proxy. Several streams may have the same one for a while, as when a proxy reconnects.
type ProxyID string

// Library holds all shelves and who sees which. It is safe for concurrent use; one goroutine publishes.
type Library struct {
	mu       sync.RWMutex
	turn     uint64
	shelves  map[shelfID]*shelf
	bindings map[ProxyID]*binding
	names    *catalog
	pages    *pagePool
	memories *memories
	types    map[string]bool     // that there is, or was, a shelf of, and those of typesKnown
	news     chan struct{}       // closed by the next turn
	times    [timesKept]turnTime // when the last turns were published, by turn modulo its length
}

const timesKept = 512

type turnTime struct {
	turn uint64
	at   time.Time
}

// binding is the place where a proxy's attachment is put and its streams wait for it.
type binding struct {
	at      *attached
	viewers map[*viewer]struct{}
}

// attached is an attachment resolved to shelves. It is never modified.
type attached struct {
	stacks map[string]stack
}

// viewer is a stream's place in the library. Its fields are guarded by the library's lock; wake holds at most one
// token.
type viewer struct {
	wake  chan struct{}
	bound *binding
	types map[string]bool // the types whose shelves it watches
}

// NewLibrary returns an empty library, at turn 0.
func NewLibrary() *Library {
	return &Library{
		shelves: map[shelfID]*shelf{}, bindings: map[ProxyID]*binding{}, names: newCatalog(), pages: newPagePool(),
		memories: newMemories(), types: typesKnown(), news: make(chan struct{}),
	}
}

// Turn returns the turn that was published last.
func (l *Library) Turn() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.turn
}

// nextTurn returns a channel that is closed when the next turn is published.
func (l *Library) nextTurn() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.news
}

// Publish applies all changes and attachments at once, as the given turn, and wakes the streams that see any of them.
// Turns must rise. The library keeps the resources; it does not keep the slices.
func (l *Library) Publish(turn uint64, changes []Change, attach ...Attach) {
	for _, w := range l.apply(turn, changes, attach) {
		w.nudge()
	}
}

// apply makes the turn, and returns the streams to wake once the lock is free again.
func (l *Library) apply(turn uint64, changes []Change, attach []Attach) (wake []*viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn <= l.turn {
		panic(fmt.Sprintf("xds: turn %d published after turn %d", turn, l.turn))
	}
	l.turn = turn
	close(l.news)
	l.news = make(chan struct{})
	l.times[turn%timesKept] = turnTime{turn, time.Now()}
	touched, edited := map[*shelf]struct{}{}, map[*shelf]struct{}{}
	for _, c := range changes {
		s := l.shelf(shelfID{c.Type, c.Shelf})
		edited[s] = struct{}{}
		if s.set(turn, l.enter(c), c) {
			touched[s] = struct{}{}
		}
	}
	for _, a := range attach {
		wake = append(wake, l.attach(a)...)
	}
	l.memories.forget(edited)
	for s := range touched {
		s.prune()
		for w := range s.watchers {
			wake = append(wake, w)
		}
		l.retire(s)
	}
	return wake
}

// enter returns the entry of a change's name, and has its resource know the entries that it refers to.
func (l *Library) enter(c Change) *entry {
	if c.Resource == nil {
		return l.names.publish(c.Name)
	}
	c.Resource.link(l.names)
	return c.Resource.links.name
}

// OtherType is what a Meter is told in place of a type that the library has never had a shelf of: those are texts that clients chose.
const OtherType = "other"

// label is what a type is called where it is counted.
func (l *Library) label(typ string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.types[typ] {
		return typ
	}
	return OtherType
}

// publishedAt returns when a turn was published, if that was not too many turns ago.
func (l *Library) publishedAt(turn uint64) (time.Time, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.times[turn%timesKept]
	return t.at, t.turn == turn && turn != 0
}

func (l *Library) shelf(id shelfID) *shelf {
	s := l.shelves[id]
	if s == nil {
		s = newShelf(id)
		l.shelves[id] = s
		l.types[id.typ] = true
	}
	return s
}

// retire drops a shelf that holds nothing and that no attachment names. One that was dropped before may have a
// successor of the same name, which stays.
func (l *Library) retire(s *shelf) {
	if s.refs == 0 && s.live == 0 && l.shelves[s.id] == s {
		delete(l.shelves, s.id)
	}
}

func (l *Library) binding(id ProxyID) *binding {
	b := l.bindings[id]
	if b == nil {
		b = &binding{viewers: map[*viewer]struct{}{}}
		l.bindings[id] = b
	}
	return b
}

func (l *Library) attach(a Attach) (wake []*viewer) {
	b := l.binding(a.Proxy)
	for w := range b.viewers {
		w.unwatch()
	}
	old := b.at
	b.at = l.resolve(a.To) // first, so that a shelf which both name stays the same one
	l.release(old)
	for w := range b.viewers {
		w.watch()
		wake = append(wake, w)
	}
	l.forget(a.Proxy, b)
	return wake
}

// resolve turns keys into shelves, which are made where they are not there yet.
func (l *Library) resolve(a *Attachment) *attached {
	if a == nil {
		return nil
	}
	at := &attached{stacks: make(map[string]stack, len(a.Stacks))}
	for typ, keys := range a.Stacks {
		for _, key := range keys {
			s := l.shelf(shelfID{typ, key})
			s.refs++
			at.stacks[typ] = append(at.stacks[typ], s)
		}
	}
	return at
}

func (l *Library) release(at *attached) {
	if at == nil {
		return
	}
	for _, stack := range at.stacks {
		for _, s := range stack {
			s.refs--
			l.retire(s)
		}
	}
}

// forget drops a binding that nobody holds.
func (l *Library) forget(id ProxyID, b *binding) {
	if b.at == nil && len(b.viewers) == 0 {
		delete(l.bindings, id)
	}
}

// open registers a stream of the proxy. The viewer is woken once the proxy is attached.
func (l *Library) open(id ProxyID) *viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.binding(id)
	w := &viewer{wake: make(chan struct{}, 1), bound: b, types: map[string]bool{}}
	b.viewers[w] = struct{}{}
	return w
}

// close takes the stream out of the library.
func (l *Library) close(id ProxyID, w *viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.unwatch()
	delete(w.bound.viewers, w)
	l.forget(id, w.bound)
}

// follow has the viewer woken by changes of a type, from now on.
func (l *Library) follow(w *viewer, typ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.types[typ] {
		w.types[typ] = true
		w.watch()
	}
}

// read runs fn with what the viewer sees at one turn; fn must not keep the view. It returns false, and does not run
// fn, while the proxy is not attached.
func (l *Library) read(w *viewer, fn func(v *view)) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if w.bound.at == nil {
		return false
	}
	fn(&view{turn: l.turn, at: w.bound.at, names: l.names, pages: l.pages, memories: l.memories, types: l.types})
	return true
}

func (w *viewer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *viewer) watch() {
	for _, s := range w.followed() {
		s.watchers[w] = struct{}{}
	}
}

func (w *viewer) unwatch() {
	for _, s := range w.followed() {
		delete(s.watchers, w)
	}
}

func (w *viewer) followed() (out []*shelf) {
	if w.bound.at == nil {
		return nil
	}
	for typ := range w.types {
		out = append(out, w.bound.at.stacks[typ]...)
	}
	return out
}
