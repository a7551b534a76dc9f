package library

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fairway/internal/xdstype"
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

// Attachment is the view of a proxy: for each type URL the keys of its shelves, from lowest to highest precedence.
type Attachment struct {
	Stacks map[string][]ShelfKey
}

// Attach gives a proxy its stacks, in place of those it had. Without To the proxy is detached: its streams stay as they are, and receive
// nothing until it is attached again.
type Attach struct {
	Proxy ProxyID
	To    *Attachment
}

// ProxyID names a proxy. Several streams may have the same one for a while, as when a proxy reconnects.
type ProxyID string

// Library holds all shelves, and which proxy sees which. It is safe for concurrent use; one goroutine publishes.
type Library struct {
	mu       sync.RWMutex
	turn     uint64
	shelves  map[shelfID]*Shelf
	bindings map[ProxyID]*binding
	names    *catalog
	contents contents
	types    map[string]bool // that there is, or was, a shelf of, and those of xdstype
	news     chan struct{}   // closed by the next turn
	onEdited []func(edited map[*Shelf]struct{})
	times    [timesKept]turnTime // when the last turns were published, by turn modulo its length
}

const timesKept = 512

type turnTime struct {
	turn uint64
	at   time.Time
}

// binding holds a proxy's attachment, and its streams wait for one there.
type binding struct {
	at      *Attached
	viewers map[*Viewer]struct{}
}

// Attached is an attachment resolved to shelves. It is never modified.
type Attached struct {
	stacks map[string]Stack
}

// New returns an empty library, at turn 0.
func New() *Library {
	return &Library{
		shelves: map[shelfID]*Shelf{}, bindings: map[ProxyID]*binding{}, names: newCatalog(),
		contents: contents{}, types: known(), news: make(chan struct{}),
	}
}

// Turn returns the turn that was published last.
func (l *Library) Turn() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.turn
}

// NextTurn returns a channel that is closed when the next turn is published.
func (l *Library) NextTurn() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.news
}

// OnEdited registers fn, which is called in each turn with the shelves of its changes, whether or not these changed anything that a stream
// could see. The library is locked during the call, so fn must not call it. Call OnEdited before streams are opened.
func (l *Library) OnEdited(fn func(edited map[*Shelf]struct{})) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onEdited = append(l.onEdited, fn)
}

// Await blocks until the given turn, or a later one, is published.
func (l *Library) Await(ctx context.Context, turn uint64) error {
	for {
		next := l.NextTurn()
		if l.Turn() >= turn {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Publish applies all changes and attachments at once, as the given turn, and wakes the streams that see any of them.
// Turns must rise. The library keeps the resources, each content of a name once; it does not keep the slices.
func (l *Library) Publish(turn uint64, changes []Change, attach ...Attach) {
	for _, w := range l.apply(turn, changes, attach) {
		w.Wake()
	}
}

// apply makes the turn, and returns the streams to wake once the lock is free again.
func (l *Library) apply(turn uint64, changes []Change, attach []Attach) (wake []*Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn <= l.turn {
		panic(fmt.Sprintf("xds: turn %d published after turn %d", turn, l.turn))
	}
	l.turn = turn
	close(l.news)
	l.news = make(chan struct{})
	l.times[turn%timesKept] = turnTime{turn, time.Now()}
	touched, edited := map[*Shelf]struct{}{}, map[*Shelf]struct{}{}
	for _, c := range changes {
		s := l.shelf(shelfID{c.Type, c.Shelf})
		edited[s] = struct{}{}
		name := l.names.publish(c.Name)
		if c.Resource != nil {
			c.Resource = l.contents.shared(name, c.Resource)
			c.Resource.link(name, l.names)
		}
		if s.set(turn, name, c) {
			touched[s] = struct{}{}
		}
	}
	for _, a := range attach {
		wake = append(wake, l.attach(a)...)
	}
	for _, tell := range l.onEdited {
		tell(edited)
	}
	for s := range touched {
		s.prune()
		for w := range s.watchers {
			wake = append(wake, w)
		}
		l.retire(s)
	}
	return wake
}

// Footprint is what a library's memory grows with, apart from resources.
type Footprint struct {
	Names int // that are known, those that only clients asked for among them
	Rows  int // bytes of the tables that shelves find their rows in
}

// Footprint returns how large the library is now.
func (l *Library) Footprint() (f Footprint) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.shelves {
		f.Rows += 8 * cap(s.rows.Pages)
	}
	f.Names = l.names.size()
	return f
}

// known are the types that are known before there is a shelf of them.
func known() map[string]bool {
	out := make(map[string]bool, xdstype.Types)
	for t := range xdstype.Types {
		out[t.URL()] = true
	}
	return out
}

// TypeLabel returns a type's label for a Meter: its URL, or xdstype.Other if the library has never had a shelf of it, because clients
// choose such texts.
func (l *Library) TypeLabel(typ string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.types[typ] {
		return typ
	}
	return xdstype.Other
}

// PublishedAt returns when a turn was published, if that was not too many turns ago.
func (l *Library) PublishedAt(turn uint64) (time.Time, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.times[turn%timesKept]
	return t.at, t.turn == turn && turn != 0
}

func (l *Library) shelf(id shelfID) *Shelf {
	s := l.shelves[id]
	if s == nil {
		s = newShelf(id, l.contents)
		l.shelves[id] = s
		l.types[id.typ] = true
	}
	return s
}

// retire drops a shelf that is empty and that no attachment names. A shelf that was dropped before may have a successor of the same name,
// which stays.
func (l *Library) retire(s *Shelf) {
	if s.refs == 0 && s.live == 0 && l.shelves[s.id] == s {
		delete(l.shelves, s.id)
	}
}

func (l *Library) binding(id ProxyID) *binding {
	b := l.bindings[id]
	if b == nil {
		b = &binding{viewers: map[*Viewer]struct{}{}}
		l.bindings[id] = b
	}
	return b
}

func (l *Library) attach(a Attach) (wake []*Viewer) {
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

// resolve turns keys into shelves, and makes those that do not exist yet.
func (l *Library) resolve(a *Attachment) *Attached {
	if a == nil {
		return nil
	}
	at := &Attached{stacks: make(map[string]Stack, len(a.Stacks))}
	for typ, keys := range a.Stacks {
		for _, key := range keys {
			s := l.shelf(shelfID{typ, key})
			s.refs++
			at.stacks[typ] = append(at.stacks[typ], s)
		}
	}
	return at
}

func (l *Library) release(at *Attached) {
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

// forget drops a binding without an attachment and viewers.
func (l *Library) forget(id ProxyID, b *binding) {
	if b.at == nil && len(b.viewers) == 0 {
		delete(l.bindings, id)
	}
}

// Reattach resolves a proxy's attachment again, between turns.
func (l *Library) Reattach(a Attach) {
	l.mu.Lock()
	wake := l.attach(a)
	l.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}
