package eureka

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// state is what has been read of servers, and which services changed since it was last handed over. It is one goroutine's.
type state struct {
	registry   string
	by, region string
	keep       time.Duration
	rows       *platform.Translator
	bounds     budget.Bounds
	account    *budget.Account
	ledger     *budget.Ledger[string] // what services cost
	uncharged  bool                   // what is listed is charged already

	records  map[key]*held        // what servers say there is
	missing  map[key]missed       // what they do not say any more, and stays for a while
	services map[string][]*record // those of records and missing, in order of key
	statuses map[string]int       // of records
	dirty    map[string]struct{}  // services
	noRoom   map[string]struct{}  // services whose rows are not handed over: they have too many ports
	ports    map[string]int       // of services that were handed over

	toldMissing int // how many are missing, as it was told
}

// held is a record, and when the server changed it last.
type held struct {
	*record
	updated number
}

// missed is a record that stays, and since when it is missing.
type missed struct {
	*record
	since time.Time
}

func newState(registry string, o Options, rows *platform.Translator) *state {
	s := &state{
		registry: registry, by: o.Services, region: o.Region, keep: o.Kept(defaultKeep), rows: rows,
		bounds: o.Limits.Bounds(), account: o.Limits.Account(registry),
		records: map[key]*held{}, missing: map[key]missed{}, services: map[string][]*record{}, statuses: map[string]int{},
		dirty: map[string]struct{}{}, noRoom: map[string]struct{}{}, ports: map[string]int{},
	}
	s.ledger = budget.NewLedger[string](s.account)
	return s
}

// all is an answer with all there is, being read.
type all struct {
	of      *state
	records map[key]*held
	ledger  *budget.Ledger[string]
}

func (s *state) all() *all {
	return &all{of: s, records: make(map[key]*held, len(s.records)), ledger: s.ledger.Draft()}
}

// drop forgets what was read, unless it was put in the place of what there is. a may be nil.
func (a *all) drop() {
	if a != nil {
		a.ledger.Drop()
	}
}

// add takes an instance, as far as there are not too many.
func (a *all) add(app string, in *instance) {
	if in == nil {
		a.ledger.Leave(1)
		return
	}
	r, ok := newRecord(app, in)
	if !ok || in.Action == deleted {
		return
	}
	before := a.records[r.key]
	if before != nil {
		a.of.charge(a.ledger, before.record, -1)
	}
	if !a.of.charge(a.ledger, &r, 1) {
		if before != nil {
			a.of.charge(a.ledger, before.record, 1)
		}
		return
	}
	if old := a.of.records[r.key]; old != nil && *old.record == r {
		a.records[r.key] = &held{old.record, in.Updated} // the same words are not held twice
		return
	}
	a.records[r.key] = &held{&r, in.Updated}
}

// charge adds a record to what its services cost, or, where n is -1, takes it away. false: there is no room for it.
func (s *state) charge(to *budget.Ledger[string], r *record, n int) bool {
	bytes := int64(n) * r.bytes()
	of := r.services(s.by)
	for i, name := range of {
		c := to.Of(name)
		if c.Things == 0 {
			c = platform.Cost(0, 0, 0)
		}
		c.Endpoints += n
		c.Bytes += bytes
		if c.Endpoints == 0 {
			to.Remove(name)
			continue
		}
		if !to.Set(name, c) {
			for _, name := range of[:i] {
				c := to.Of(name)
				c.Endpoints -= n
				if c.Bytes -= bytes; c.Endpoints == 0 {
					to.Remove(name)
				} else {
					to.Set(name, c)
				}
			}
			return false
		}
	}
	return true
}

// replace makes what was read all there is. What is missing now goes; or it stays for a while where vanished is true (no server has
// said that it left), or where it is more than half of all.
func (s *state) replace(a *all, vanished bool, now time.Time) {
	vanished = vanished || 2*len(a.records) < len(s.records) // nobody lets half of all go at once
	a.ledger.Commit()
	s.ledger, s.uncharged = a.ledger, true
	for k := range s.records {
		if _, is := a.records[k]; is {
			continue
		}
		if vanished && s.keep > 0 {
			s.miss(k, now)
		} else {
			s.remove(k)
		}
	}
	for _, h := range a.records {
		s.put(h.record, h.updated)
	}
	s.uncharged = false
	for k, m := range s.missing { // what is there goes before what may be
		if !s.charge(s.ledger, m.record, 1) {
			s.uncharged = true
			s.remove(k)
			s.uncharged = false
			s.ledger.Leave(-1) // servers do not have it
		}
	}
	for name, ports := range s.ports {
		if _, is := s.dirty[name]; !is {
			s.chargePorts(name, ports)
		}
	}
	for name := range s.noRoom {
		s.dirty[name] = struct{}{}
	}
}

// change is what a delta says of one instance.
type change struct {
	record
	updated number
	gone    bool
}

// apply takes changes, in order.
func (s *state) apply(changes []change) {
	for i := range changes {
		c := &changes[i]
		if old := s.records[c.key]; old != nil && c.updated != 0 && c.updated < old.updated {
			continue // servers tell what is minutes old, too
		}
		if c.gone {
			s.remove(c.key)
			continue
		}
		r := c.record // not the whole list
		s.put(&r, c.updated)
	}
}

func (s *state) put(r *record, updated number) {
	if old := s.records[r.key]; old != nil {
		if old.updated = updated; *old.record == *r {
			return
		}
		s.remove(r.key)
	} else if old, is := s.missing[r.key]; is {
		if delete(s.missing, r.key); *old.record == *r { // it is back, and nobody noticed
			s.records[r.key] = &held{old.record, updated}
			s.statuses[r.status]++
			return
		}
		s.unlist(old.record)
	}
	if !s.uncharged && !s.charge(s.ledger, r, 1) {
		return
	}
	s.records[r.key] = &held{r, updated}
	s.statuses[r.status]++
	for _, name := range r.services(s.by) {
		members := s.services[name]
		at, _ := slices.BinarySearchFunc(members, r.key, func(m *record, k key) int { return compareKey(m.key, k) })
		s.services[name] = slices.Insert(members, at, r)
		s.dirty[name] = struct{}{}
	}
}

// remove has an instance go, if it is there.
func (s *state) remove(k key) {
	if old, is := s.missing[k]; is {
		delete(s.missing, k)
		s.unlist(old.record)
	}
	if old := s.records[k]; old != nil {
		s.forget(old.record)
		s.unlist(old.record)
	}
}

// miss has an instance stay of which servers say nothing any more.
func (s *state) miss(k key, now time.Time) {
	old := s.records[k].record
	s.forget(old)
	s.missing[k] = missed{old, now}
}

func (s *state) forget(r *record) {
	delete(s.records, r.key)
	if s.statuses[r.status]--; s.statuses[r.status] == 0 {
		delete(s.statuses, r.status)
	}
}

func (s *state) unlist(r *record) {
	if !s.uncharged {
		s.charge(s.ledger, r, -1)
	}
	for _, name := range r.services(s.by) {
		members := s.services[name]
		if at, is := slices.BinarySearchFunc(members, r.key, func(m *record, k key) int { return compareKey(m.key, k) }); is {
			members = slices.Delete(members, at, at+1)
		}
		if s.dirty[name] = struct{}{}; len(members) == 0 {
			delete(s.services, name)
		} else {
			s.services[name] = members
		}
	}
}

// expire has those go that have been missing for too long.
func (s *state) expire(now time.Time) {
	for k, m := range s.missing {
		if now.Sub(m.since) >= s.keep {
			s.remove(k)
		}
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

// placeMissing is a place of problems that is no service's. No service's place is without a slash.
const placeMissing = "missing"

// chargePorts charges the ports of a service. false: there is no room for them.
func (s *state) chargePorts(name string, ports int) bool {
	c := s.ledger.Of(name)
	c.Ports = max(ports-1, 0)
	if !s.ledger.Set(name, c) {
		return false
	}
	s.ports[name] = ports
	return true
}

// flush is what changed since it was last asked.
func (s *state) flush() (shards []source.Shard, problems map[string][]mesh.Problem) {
	problems = map[string][]mesh.Problem{}
	for _, name := range slices.Sorted(maps.Keys(s.dirty)) {
		place, members := platform.Part("", name), s.services[name]
		delete(s.noRoom, name)
		delete(s.ports, name)
		if len(members) == 0 {
			shards = append(shards, s.rows.Gone("", name))
			problems[place] = nil
			continue
		}
		service, wrong := s.serviceOf(name, members)
		shard, more := s.rows.Rows(service)
		ports := 0
		for _, row := range shard.Rows.Services {
			ports = len(row.Ports)
		}
		if !s.chargePorts(name, ports) {
			s.noRoom[name] = struct{}{}
			shard, more = s.rows.Gone("", name), append(more, s.rows.TooManyPorts(service, ports, s.bounds))
		}
		shards = append(shards, shard)
		problems[place] = append(wrong, more...)
	}
	clear(s.dirty)
	if n := len(s.missing); n != s.toldMissing {
		problems[placeMissing], s.toldMissing = s.kept(), n
	}
	return shards, problems
}

func (s *state) kept() []mesh.Problem {
	if len(s.missing) == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.registry}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("%d instances are missing, and no server said that they left; each stays for %s", len(s.missing), s.keep),
		Fix:     "see whether a server was started anew; keepMissing of the registry says for how long they stay",
	}}
}

func shown(s string) string { return printable.Text(s, printable.Short) }
