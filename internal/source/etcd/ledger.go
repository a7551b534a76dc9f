package etcd

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/store"
)

// entry is one key.
type entry struct {
	key      config.Key // zero: the key names no object
	foreign  string     // why the key names no object; empty: it names one
	modified int64      // revisions of etcd
	created  int64
	size     int64
	object   *config.Object // in force; nil: none is
	noRoom   bool           // there was no room for the value
	lost     bool           // the etcd that took the place of the one that was read has no such key
}

// ledger knows the entry of each key, and which objects the sink has.
type ledger struct {
	name    string // of the source
	layout  store.Layout
	decoder *config.Decoder
	log     *slog.Logger
	most    int
	room    int64 // bytes

	entries map[string]*entry
	size    int64
	left    int // keys that were left out, for lack of room
	noRoom  int // entries with a newest value that there was no room for
	handed  map[string]*config.Object
	touched map[string][]mesh.Problem // keys that may have changed, and their problems
	foreign int                       // keys that name no object
	lost    int                       // entries that are
}

// Places of problems that are of no single object.
const (
	placeOdd  = " keys"
	placeRoom = " room"
)

func newLedger(s *Source) *ledger {
	return &ledger{
		name: s.name, layout: s.o.Layout, decoder: s.decoder, log: s.log, most: s.o.MaxObjects, room: s.o.MaxBytes,
		entries: map[string]*entry{}, handed: map[string]*config.Object{}, touched: map[string][]mesh.Problem{},
	}
}

// file returns the name of the place of a key.
func (l *ledger) file(key string) string { return l.name + ":" + printable.Text(key, printable.Long) }

// read is a value as it was decoded.
type read struct {
	kv       *mvccpb.KeyValue
	key      config.Key
	foreign  string
	object   *config.Object
	problems []mesh.Problem
}

// decode reads values on all cores, in their order. Values that are held already, as known reports, are not decoded.
func (l *ledger) decode(kvs []*mvccpb.KeyValue, known func(*mvccpb.KeyValue) bool) []read {
	out := make([]read, len(kvs))
	parallel(len(kvs), func(i int) {
		if out[i].kv = kvs[i]; known == nil || !known(kvs[i]) {
			l.value(&out[i])
		}
	})
	return out
}

// value decodes one value. If the decoder panics, that is a problem of this value alone.
func (l *ledger) value(r *read) {
	at := string(r.kv.Key)
	key, err := l.layout.Object(at)
	if err != nil {
		r.foreign = err.Error()
		return
	}
	r.key = key
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("an object ended what reads it", "object", key.String(), "panic", p, "stack", string(debug.Stack()))
			r.object, r.problems = nil, []mesh.Problem{l.problem(key, at, code.Unreadable, mesh.Error,
				"the object cannot be read, by a fault of the control plane's own", "its log has the rest")}
		}
	}()
	r.object, r.problems = store.Decode(l.decoder, key, l.file(at), r.kv.Value)
	if r.object == nil && len(r.problems) == 0 {
		r.problems = []mesh.Problem{l.problem(key, at, code.NotAnObject, mesh.Error, "the value is empty", "")}
	}
}

func (l *ledger) problem(k config.Key, at, what string, severity mesh.Severity, message, fix string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name, File: l.file(at), Line: 1},
		Line:   1, Code: what, Severity: severity, Message: message, Fix: fix,
	}
}

// set takes the value of a key. It returns false if there is no room for it. If the value is bad, the version before stays in force,
// unless it is of an object that was deleted.
func (l *ledger) set(r read, keep bool) bool {
	at := string(r.kv.Key)
	old := l.entries[at]
	size := int64(len(r.kv.Key) + len(r.kv.Value))
	var was int64
	if old != nil {
		was = old.size
	}
	noRoom := false
	if old == nil && len(l.entries) >= l.most || l.size-was+size > l.room {
		if old == nil {
			if r.kv.CreateRevision == r.kv.ModRevision { // else it was left out before
				l.left++
			}
			return false
		}
		// The held version is not the stored one, and there is no room for that one.
		r.object, r.problems = nil, []mesh.Problem{l.problem(r.key, at, code.TooMuch, mesh.Error,
			fmt.Sprintf("there is no room for it: the objects of a mesh may have maxBytes, %d", l.room), "raise maxBytes")}
		size, noRoom = was, true
	}
	e := &entry{
		key: r.key, foreign: r.foreign, modified: r.kv.ModRevision, created: r.kv.CreateRevision, size: size,
		object: r.object, noRoom: noRoom,
	}
	if e.object == nil && old != nil && old.object != nil && (old.created == e.created || old.lost || keep) {
		e.object = old.object
		for i := range r.problems {
			if r.problems[i].Severity == mesh.Error {
				r.problems[i].Message += "; the version before it stays in force"
			}
		}
	}
	l.replace(at, old, e, r.problems)
	return true
}

// replace puts an entry, with its problems, in the place of another. Either may be nil.
func (l *ledger) replace(at string, old, now *entry, problems []mesh.Problem) {
	for _, c := range []struct {
		e *entry
		n int
	}{{old, -1}, {now, 1}} {
		if c.e == nil {
			continue
		}
		l.size += int64(c.n) * c.e.size
		if c.e.foreign != "" {
			l.foreign += c.n
			l.touched[placeOdd] = nil
		}
		if c.e.lost {
			l.lost += c.n
		}
		if c.e.noRoom {
			l.noRoom += c.n
		}
	}
	if l.touched[at] = problems; now == nil {
		delete(l.entries, at)
	} else {
		l.entries[at] = now
	}
}

// leftOut counts the values that are not held as they are stored, for lack of room.
func (l *ledger) leftOut() int { return l.left + l.noRoom }

// remove forgets a key. It reports whether something that was left out may have room now.
func (l *ledger) remove(at string) bool {
	if old := l.entries[at]; old != nil {
		l.replace(at, old, nil, nil)
		return l.leftOut() > 0
	}
	l.left = max(l.left-1, 0) // it was left out, or is not one of ours
	return false
}

// lose keeps what a key held that is no longer stored.
func (l *ledger) lose(at string) {
	old := l.entries[at]
	if old.object == nil {
		l.remove(at)
		return
	}
	e := *old
	e.lost = true
	l.replace(at, old, &e, []mesh.Problem{l.problem(old.key, at, code.SourceStale, mesh.Warning,
		"etcd lost it: the last state that was read stays in force", "apply it again; to remove it, apply it and delete it")})
}

// newest returns the key that was written last; empty: nothing is held.
func (l *ledger) newest() (key string, modified int64) {
	for at, e := range l.entries {
		if !e.lost && (e.modified > modified || e.modified == modified && at < key) {
			key, modified = at, e.modified
		}
	}
	return key, modified
}

// objects returns how many are in force.
func (l *ledger) objects() int { return len(l.handed) }

// flush returns the changes since the last flush, and the problems of each place. whole: it is all there is.
func (l *ledger) flush(whole bool) (source.Shard, map[string][]mesh.Problem) {
	shard := source.Shard{Key: source.ShardKey{Kind: "objects"}, Whole: whole}
	problems := map[string][]mesh.Problem{l.file(placeRoom): l.leftOutProblems()}
	for _, at := range slices.Sorted(maps.Keys(l.touched)) {
		if at == placeOdd {
			problems[l.file(at)] = l.foreignKeys()
			continue
		}
		problems[l.file(at)] = l.touched[at]
		var now *config.Object
		if e := l.entries[at]; e != nil {
			now = e.object
		}
		was := l.handed[at]
		switch {
		case now != nil && now != was:
			l.handed[at] = now
			shard.Rows.Objects = append(shard.Rows.Objects, now)
		case now == nil && was != nil:
			delete(l.handed, at)
			shard.Gone.Objects = append(shard.Gone.Objects, was.Key)
		}
	}
	clear(l.touched)
	if whole {
		shard.Gone, shard.Rows.Objects = source.Keys{}, nil
		for _, at := range slices.Sorted(maps.Keys(l.handed)) {
			shard.Rows.Objects = append(shard.Rows.Objects, l.handed[at])
		}
	}
	return shard, problems
}

// mostForeign is how many keys that name no object are reported one by one.
const mostForeign = 100

// foreignKeys returns the problems of keys that name no object, the first by name.
func (l *ledger) foreignKeys() []mesh.Problem {
	if l.foreign == 0 {
		return nil
	}
	var keys []string
	for at, e := range l.entries {
		if e.foreign != "" {
			keys = append(keys, at)
		}
	}
	slices.Sort(keys)
	var out []mesh.Problem
	for _, at := range keys[:min(len(keys), mostForeign)] {
		shown := printable.Text(strings.TrimPrefix(at, l.layout.Root()), printable.Short)
		p := l.problem(config.Key{Kind: "file"}, at, code.BadName, mesh.Error,
			fmt.Sprintf("key %q below %s is not an object's: %s", shown, l.layout.Root(), l.entries[at].foreign),
			"write objects with pilotctl apply, and delete the key with etcdctl del")
		p.Object.File = l.name + ":" + l.layout.Root() // one place for all, whatever they are
		out = append(out, p)
	}
	if more := len(keys) - mostForeign; more > 0 {
		p := l.problem(config.Key{Kind: "file"}, l.layout.Root(), code.TooManyProblems, mesh.Error,
			fmt.Sprintf("and %d more keys that are not objects'", more), "")
		out = append(out, p)
	}
	return out
}

// leftOutProblems returns the problem that not all is read.
func (l *ledger) leftOutProblems() []mesh.Problem {
	if l.leftOut() == 0 {
		return nil
	}
	return []mesh.Problem{l.problem(config.Key{Kind: "file"}, l.layout.Root(), code.TooMuch, mesh.Error,
		fmt.Sprintf("there is more than is read: at most %d keys (maxObjects) of %d bytes in all (maxBytes), the first by name; "+
			"the others are left out", l.most, l.room),
		"raise maxObjects or maxBytes, or delete unused objects")}
}

// parallel calls fn for 0 to n-1 on all cores.
func parallel(n int, fn func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			fn(i)
		}
	}
	for range min(runtime.GOMAXPROCS(0), n) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
