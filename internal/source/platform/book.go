package platform

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/source/budget"
)

// ServiceName names a service as its registry does. Namespace may be empty.
type ServiceName struct{ Namespace, Name string }

// CompareServiceName orders services by namespace, then name.
func CompareServiceName(a, b ServiceName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Record is what a Book holds of one instance. K is the type of its key, R the record's own type.
type Record[K, R any] interface {
	comparable
	Key() K
	// Services returns the services that the instance serves: the same ones each time.
	Services() []ServiceName
	// Bytes estimates the memory of the record and of its rows in one service.
	Bytes() int64
	// Same reports whether equal rows are made of both records.
	Same(R) bool
}

// Book holds the instances that a registry lists, within bounds, and makes the rows of each service that changed. An instance that is
// missing from a list may stay for a while (see Replace). A Book belongs to one goroutine; several may share an account.
type Book[K comparable, R Record[K, R]] struct {
	// Registry names the registry in problems, and Rows makes rows of its services.
	Registry string
	Rows     *Translator
	Limits   Limits
	// Keep is how long missing instances stay.
	Keep time.Duration
	// Place is where problems about missing instances are reported.
	Place string
	// Compare orders instances of a service, and Service makes the service of them.
	Compare func(a, b K) int
	Service func(ServiceName, []R) (*Service, []mesh.Problem)
	// Count is called with 1 for each record that becomes listed, and with -1 for each that no longer is. It may be nil.
	Count func(r R, n int)

	ledger   *budget.Ledger[ServiceName]
	listed   map[K]R         // what the registry lists
	missing  map[K]absent[R] // what it no longer lists, and what stays
	due      time.Time       // before this time no missing instance goes
	services map[ServiceName]*members[R]
	dirty    map[ServiceName]struct{} // services that changed since the last Flush
	noRoom   map[ServiceName]struct{} // services that are left out because they have too many ports
	ports    map[ServiceName]int      // charged ports of services with rows
}

// absent is a missing record.
type absent[R any] struct {
	record R
	since  time.Time
}

// members are the records of a service. Flush brings them up to date: until then some may be outdated, and others wait in added.
type members[R any] struct{ sorted, added []R }

// Open prepares the Book, which charges an account. It is called once, before all other methods.
func (b *Book[K, R]) Open(a *budget.Account) *Book[K, R] {
	b.ledger = budget.NewLedger[ServiceName](a)
	b.listed, b.missing, b.services = map[K]R{}, map[K]absent[R]{}, map[ServiceName]*members[R]{}
	b.dirty, b.noRoom, b.ports = map[ServiceName]struct{}{}, map[ServiceName]struct{}{}, map[ServiceName]int{}
	return b
}

// Len returns the number of services, as of the last Flush.
func (b *Book[K, R]) Len() int { return len(b.services) }

// Listed returns the record that the registry lists under a key.
func (b *Book[K, R]) Listed(k K) (R, bool) {
	r, is := b.listed[k]
	return r, is
}

// held returns the record under a key, listed or missing.
func (b *Book[K, R]) held(k K) (R, bool) {
	if r, is := b.listed[k]; is {
		return r, true
	}
	m, is := b.missing[k]
	return m.record, is
}

// Put adds a record, or replaces the one of its key. If there is no room for it, the key holds nothing afterwards. Put returns the record
// that is held: the older one if both are the same.
func (b *Book[K, R]) Put(r R) R {
	k := r.Key()
	if old, is := b.held(k); is {
		if old.Same(r) {
			b.list(k, old)
			return old
		}
		b.Remove(k)
	}
	if b.charge(b.ledger, r, 1) {
		b.list(k, r)
		b.enter(r)
	}
	return r
}

// Remove removes an instance that has left.
func (b *Book[K, R]) Remove(k K) {
	if r, is := b.held(k); is {
		b.unlist(k)
		b.charge(b.ledger, r, -1)
		b.touch(r)
	}
}

// list marks a record as listed.
func (b *Book[K, R]) list(k K, r R) {
	if _, is := b.listed[k]; !is && b.Count != nil {
		b.Count(r, 1)
	}
	delete(b.missing, k)
	b.listed[k] = r
}

// unlist forgets the record of a key.
func (b *Book[K, R]) unlist(k K) {
	if r, is := b.listed[k]; is && b.Count != nil {
		b.Count(r, -1)
	}
	delete(b.listed, k)
	delete(b.missing, k)
}

// touch marks the services of a record as changed.
func (b *Book[K, R]) touch(r R) {
	for _, name := range r.Services() {
		b.dirty[name] = struct{}{}
	}
}

// enter adds a record to its services.
func (b *Book[K, R]) enter(r R) {
	for _, name := range r.Services() {
		if b.services[name] == nil {
			b.services[name] = &members[R]{}
		}
		b.services[name].added = append(b.services[name].added, r)
	}
	b.touch(r)
}

// charge adds the cost of a record to its services, or removes it if n is -1. It returns false if there is no room.
func (b *Book[K, R]) charge(to *budget.Ledger[ServiceName], r R, n int) bool {
	names, bytes := r.Services(), r.Bytes()
	for i, name := range names {
		if !charge(to, name, n, bytes) {
			for _, name := range names[:i] {
				charge(to, name, -n, bytes)
			}
			return false
		}
	}
	return true
}

func charge(to *budget.Ledger[ServiceName], name ServiceName, n int, bytes int64) bool {
	c := to.Of(name)
	if c.Things == 0 {
		c = Cost(0, 0, 0)
	}
	c.Endpoints += n
	c.Bytes += int64(n) * bytes
	if c.Endpoints == 0 {
		to.Remove(name)
		return true
	}
	return to.Set(name, c)
}

// Wait returns how long it takes until a missing instance may go; an hour if none is missing.
func (b *Book[K, R]) Wait(now time.Time) time.Duration {
	if len(b.missing) == 0 {
		return time.Hour
	}
	return max(b.due.Sub(now), 0)
}

// Expire removes instances that have been missing for too long.
func (b *Book[K, R]) Expire(now time.Time) {
	if b.Wait(now) > 0 {
		return
	}
	b.due = now.Add(b.Keep)
	for k, m := range b.missing {
		if end := m.since.Add(b.Keep); !end.After(now) {
			b.Remove(k)
		} else if end.Before(b.due) {
			b.due = end
		}
	}
}

// settle brings the members of a service up to date, and returns them in order.
func (b *Book[K, R]) settle(name ServiceName) []R {
	m := b.services[name]
	if m == nil {
		return nil
	}
	all := slices.DeleteFunc(append(m.sorted, m.added...), func(r R) bool {
		now, is := b.held(r.Key())
		return !is || now != r
	})
	if len(m.added) > 0 {
		slices.SortFunc(all, func(x, y R) int { return b.Compare(x.Key(), y.Key()) })
		all = slices.Compact(all)
	}
	if m.sorted, m.added = all, nil; len(all) == 0 {
		delete(b.services, name)
	}
	return all
}

// chargePorts charges the ports of a service. It returns false if there is no room for them.
func (b *Book[K, R]) chargePorts(name ServiceName, ports int) bool {
	c := b.ledger.Of(name)
	if c.Things == 0 { // it has left, and Flush is about to say so
		return true
	}
	c.Ports = max(ports-1, 0)
	return b.ledger.Set(name, c)
}

// Flush returns the rows and problems of all services that changed since the last Flush, by place.
func (b *Book[K, R]) Flush() (shards []source.Shard, problems map[string][]mesh.Problem) {
	problems = map[string][]mesh.Problem{}
	for _, name := range slices.SortedFunc(maps.Keys(b.dirty), CompareServiceName) {
		place, all := Part(name.Namespace, name.Name), b.settle(name)
		delete(b.noRoom, name)
		delete(b.ports, name)
		if len(all) == 0 {
			shards = append(shards, b.Rows.Gone(name.Namespace, name.Name))
			problems[place] = nil
			continue
		}
		service, wrong := b.Service(name, all)
		shard, more := b.Rows.Rows(service)
		ports := 0
		for _, row := range shard.Rows.Services {
			ports = len(row.Ports)
		}
		if b.chargePorts(name, ports) {
			b.ports[name] = ports
		} else {
			b.noRoom[name] = struct{}{}
			shard = b.Rows.Gone(name.Namespace, name.Name)
			more = append(more, b.Rows.TooManyPorts(service, ports, b.Limits.Bounds()))
		}
		shards = append(shards, shard)
		problems[place] = append(wrong, more...)
	}
	clear(b.dirty)
	problems[b.Place] = nil
	if n := len(b.missing); n > 0 {
		problems[b.Place] = []mesh.Problem{MissingProblem(b.Registry, n, "instances", b.Keep)}
	}
	return shards, problems
}

// MissingProblem reports how many things of a registry are missing and stay for a while.
func MissingProblem(registry string, n int, things string, keep time.Duration) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: registry}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("%s are missing from the registry's list (%d), and a server may have lost them; each stays for %s",
			things, n, keep),
		Fix: "see whether a server was restarted; keepMissing of the registry sets how long they stay",
	}
}
