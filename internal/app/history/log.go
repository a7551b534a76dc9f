package history

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fairway/internal/admin"
	"fairway/internal/admin/page"
	"fairway/internal/app/loop"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
)

// Bounds of a Log.
const (
	mostTurns   = 1000 // turns
	mostObjects = 16   // objects of a turn that are named
	mostKeys    = 100  // objects of a turn that it is found by
	mostTables  = 8    // tables of a turn that are named, those with the most rows
	mostStreams = 1000 // streams of a turn that are remembered
	mostRefused = 8    // refusals of a turn
	mostNames   = 10   // resources of a refusal that are named
	mostOther   = 8    // refusals a minute, of turns that are not remembered, that are logged
	fullRows    = 1000 // rows, of which a turn computes more if it is called full
)

// Log remembers turns. The loop calls Begin and End; any goroutine may call the other methods.
type Log struct {
	xds.Meter
	tables    *input.Tables
	store     *table.Store
	published func() [xdstype.Types]int

	kept  string // file; empty: none
	log   *slog.Logger
	began bool // a turn of this process was kept

	mu      sync.Mutex
	other   other
	last    uint64           // turn that has begun
	changes uint64           // of anything that is kept
	turns   []*turn          // oldest first
	numbers map[uint64]*turn // those, and the one that has begun and not ended, by number
	inForce map[config.Key]uint64
}

// turn is one turn. Log.mu guards it.
type turn struct {
	page.Turn
	inputs    []string
	tables    []table.TableTurn
	resources [xdstype.Types]int
	published time.Time
	ended     bool
	streams   []uint64 // that were sent it, the first of them
	objects   []config.Key
	past      bool   // of an earlier process: Turn is all of it
	line      []byte // as it is kept; nil: it has changed since
	changes   int
}

// New returns an empty log of the turns of a store. published returns how many resources of each type the last turn published; next counts
// the events of streams too. past are the turns of an earlier process.
func New(tables *input.Tables, store *table.Store, published func() [xdstype.Types]int, next xds.Meter, past Past) *Log {
	return &Log{
		Meter: next, tables: tables, store: store, published: published,
		kept: past.path, log: past.log, last: past.Last, turns: past.turns,
		numbers: map[uint64]*turn{}, inForce: map[config.Key]uint64{},
	}
}

// Begin notes a turn before its resources are published, because proxies may acknowledge these at once.
func (l *Log) Begin(t loop.Turn) {
	now := &turn{inputs: t.Inputs, tables: t.Tables, Turn: page.Turn{
		Number: t.Version, At: t.Began, Staged: t.Staged, Rows: t.Recomputed, Changed: t.Changed,
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = t.Version
	l.changes++
	for m := range l.tables.Moves() {
		if m.Gone {
			delete(l.inForce, m.Key)
		} else {
			l.inForce[m.Key] = t.Version
		}
		now.note(m)
	}
	now.published = time.Now()
	l.numbers[t.Version] = now
}

// note counts an object of a turn, and names it among the first.
func (t *turn) note(m input.Move) {
	t.ObjectCount++
	if len(t.objects) == mostKeys {
		return
	}
	if t.objects = append(t.objects, m.Key); len(t.Objects) == mostObjects {
		return
	}
	change := "changed"
	switch {
	case m.Gone:
		change = "removed"
	case m.Same:
		change = "moved"
	case !m.Old:
		change = "added"
	}
	t.Objects = append(t.Objects, page.TurnObject{Kind: string(m.Key.Kind), Namespace: m.Key.Namespace, Name: m.Key.Name, Change: change})
}

// End notes what the turn published. A turn that published nothing, and in which no object changed, is not kept.
func (l *Log) End(t loop.Turn) {
	rows := 0
	if t.Recomputed > fullRows { // smaller turns need no look at the tables
		for _, of := range l.store.Tables() {
			rows += of.Rows
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.numbers[t.Version]
	now.resources, now.ended = l.published(), true
	for _, n := range now.resources {
		now.ResourceCount += n
	}
	if now.ResourceCount+now.ObjectCount == 0 {
		delete(l.numbers, t.Version)
		return
	}
	now.Start, l.began = !l.began, true
	now.Millis, now.TotalRows = float64(time.Since(t.Began).Microseconds())/1000, rows
	if len(l.turns) == mostTurns {
		delete(l.numbers, l.turns[0].Number)
		l.turns = slices.Delete(l.turns, 0, 1)
	}
	l.turns = append(l.turns, now)
}

// Sent implements xds.Meter.
func (l *Log) Sent(s xds.Sent) {
	if len(s.Turns) > 0 {
		l.mu.Lock()
		l.each(s.Turns, func(t *turn) { t.sent(s) })
		l.mu.Unlock()
	}
	l.Meter.Sent(s)
}

// sent counts a response of the turn. A stream counts once, as far as it is remembered.
func (t *turn) sent(s xds.Sent) {
	t.Responses++
	t.Bytes += s.Bytes
	if len(t.streams) == mostStreams || slices.Contains(t.streams, s.Stream) {
		return
	}
	t.streams = append(t.streams, s.Stream)
	t.Proxies++
}

// Acked implements xds.Meter.
func (l *Log) Acked(a xds.Acked) {
	if len(a.Turns) > 0 {
		l.mu.Lock()
		l.each(a.Turns, func(t *turn) {
			t.Acks++
			took := float64(time.Since(t.published).Microseconds()) / 1000
			if t.Acks == 1 {
				t.FirstAckMillis = took
			}
			t.LastAckMillis = took
		})
		l.mu.Unlock()
	}
	l.Meter.Acked(a)
}

// Hooks are hooks that tell the log what proxies refuse.
type Hooks struct {
	xds.Hooks
	Log *Log
}

// Rejected implements xds.Hooks.
func (h Hooks) Rejected(r xds.Rejection) {
	h.Log.rejected(r)
	h.Hooks.Rejected(r)
}

// other counts refusals of turns that are not remembered.
type other struct {
	since time.Time
	n     int
}

// rejected notes that a proxy refused resources, and logs the first refusals of each turn.
func (l *Log) rejected(r xds.Rejection) {
	if !l.note(r) || l.log == nil {
		return
	}
	l.log.Warn("a proxy refuses resources", "turn", r.Turn, "proxy", string(r.Proxy), "type", xdstype.Label(r.Type),
		"names", r.Names[:min(len(r.Names), mostNames)], "because", r.Detail)
}

// note notes a refusal, and reports whether it is to be logged.
func (l *Log) note(r xds.Rejection) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.numbers[r.Turn] == nil {
		if now := time.Now(); now.Sub(l.other.since) > time.Minute {
			l.other = other{since: now}
		}
		l.other.n++
		return l.other.n <= mostOther
	}
	l.each([]uint64{r.Turn}, func(t *turn) {
		t.RefusalCount++
		if first = len(t.Refusals) < mostRefused; first {
			t.Refusals = append(t.Refusals, page.TurnRefusal{
				Proxy: string(r.Proxy), ProxyID: mesh.ProxyID(r.Proxy).Node(), Type: xdstype.Label(r.Type),
				Names: texts(r.Names[:min(len(r.Names), mostNames)]), Detail: printable.Text(r.Detail, printable.Long),
			})
		}
	})
	return first
}

// each calls fn with those of the turns that are remembered. mu is held.
func (l *Log) each(numbers []uint64, fn func(*turn)) {
	for _, n := range numbers {
		if t := l.numbers[n]; t != nil {
			fn(t)
			t.line = nil
			t.changes++
			l.changes++
		}
	}
}

// InForce returns the turn in which the version of an object that is in force came into force; false: there is no such object.
func (l *Log) InForce(k config.Key) (turn uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn, ok = l.inForce[k]
	return turn, ok
}

// Published reports whether streams see a turn that has begun.
func (l *Log) Published(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.numbers[number]
	return t == nil || t.ended // earlier ones are not remembered
}

// Warms reports whether a turn may have changed a resource that warms before it is used: a listener or a cluster.
func (l *Log) Warms(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.numbers[number]
	return t == nil || t.resources[xdstype.Listeners]+t.resources[xdstype.Clusters] > 0
}

// Changed reports whether a turn may have changed a resource of a type, which has a URL.
func (l *Log) Changed(number uint64, url string) bool {
	typ, known := xdstype.Of(url)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.numbers[number]
	return t == nil || !known || t.resources[typ] > 0
}

// Turns returns the turns that a filter selects, oldest first.
func (l *Log) Turns(f admin.TurnFilter) []page.Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []page.Turn{}
	for _, t := range slices.Backward(l.turns) {
		if len(out) == f.Most || t.Number <= f.After {
			break
		}
		if f.Turn != 0 && t.Number != f.Turn || f.Object != nil && !slices.ContainsFunc(t.objects, f.Object) ||
			f.Stream != 0 && !slices.Contains(t.streams, f.Stream) {
			continue
		}
		out = append(out, t.copied())
	}
	slices.Reverse(out)
	return out
}

// copied returns what the page shows, for a reader without the lock.
func (t *turn) copied() page.Turn {
	out := t.Turn
	if t.past {
		return out
	}
	out.At, out.Inputs, out.Tables = t.At.UTC(), texts(t.inputs), largest(t.tables)
	for typ, n := range t.resources {
		if n > 0 {
			out.Resources = append(out.Resources, page.TurnResources{Type: xdstype.Type(typ).Label(), Count: n})
		}
	}
	out.Objects, out.Refusals = slices.Clone(t.Objects), slices.Clone(t.Refusals)
	out.Full = t.Rows > fullRows && t.Rows > t.TotalRows/2
	out.MoreProxies = len(t.streams) == mostStreams
	return out
}

// largest returns the tables of a turn with the most rows, the largest first.
func largest(tables []table.TableTurn) (out []page.TurnTable) {
	sorted := slices.SortedStableFunc(slices.Values(tables), func(a, b table.TableTurn) int {
		return cmp.Compare(b.Recomputed+b.Changed, a.Recomputed+a.Changed)
	})
	for _, t := range sorted[:min(len(sorted), mostTables)] {
		out = append(out, page.TurnTable{Name: t.Name, Recomputed: t.Recomputed, Changed: t.Changed})
	}
	return out
}

// texts returns texts of strangers fit to keep.
func texts(list []string) (out []string) {
	for _, s := range list {
		out = append(out, printable.Text(s, printable.Short))
	}
	return out
}
