package eureka

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/printable"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// state is what has been read of servers. It is one goroutine's.
type state struct {
	registry   string
	by, region string
	bounds     budget.Bounds
	account    *budget.Account
	book       *platform.Book[key, *record]
	statuses   map[string]int // of listed records
}

// placeMissing is a place of problems that is not a service's. No service's place is without a slash.
const placeMissing = "missing"

func newState(registry string, o Options, rows *platform.Translator) *state {
	s := &state{
		registry: registry, by: o.Services, region: o.Region, bounds: o.Limits.Bounds(), account: o.Limits.Account(registry),
		statuses: map[string]int{},
	}
	s.book = (&platform.Book[key, *record]{
		Registry: registry, Rows: rows, Limits: o.Limits, Keep: o.Kept(defaultKeep), Place: placeMissing,
		Compare: compareKey, Service: s.serviceOf, Count: s.count,
	}).Open(s.account)
	return s
}

func (s *state) count(r *record, n int) {
	if s.statuses[r.status] += n; s.statuses[r.status] == 0 {
		delete(s.statuses, r.status)
	}
}

// all is an answer with all there is, being read.
type all struct {
	*platform.List[key, *record]
	by string
}

func (s *state) all() all { return all{s.book.List(), s.by} }

// add takes an instance, as far as there are not too many.
func (a all) add(app string, in *instance) {
	if in == nil {
		a.Leave(1)
		return
	}
	if r, ok := newRecord(a.by, app, in); ok && in.Action != deleted {
		a.Add(r).updated = r.updated
	}
}

// change is what a delta says of one instance.
type change struct {
	*record
	gone bool
}

// apply takes changes, in order.
func (s *state) apply(changes []change) {
	for _, c := range changes {
		if old, is := s.book.Listed(c.key); is && c.updated != 0 && c.updated < old.updated {
			continue // servers report changes that are minutes old, too
		}
		if c.gone {
			s.book.Remove(c.key)
			continue
		}
		s.book.Put(c.record).updated = c.updated
	}
}

// hash counts instances by status, as servers do.
func (s *state) hash() string {
	var b strings.Builder
	for _, status := range slices.Sorted(maps.Keys(s.statuses)) {
		b.WriteString(status + "_" + strconv.Itoa(s.statuses[status]) + "_")
	}
	return b.String()
}

func shown(s string) string { return printable.Text(s, printable.Short) }
