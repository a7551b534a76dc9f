package library

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fairway/internal/xdstype"
)

// model is a library in plain maps.
type model struct {
	shelves  map[shelfID]*modelShelf
	attached map[ProxyID]*Attachment // nil: none
	viewers  []*modelViewer
}

// modelShelf has the rows of a shelf. floor is the last turn of a tombstone that was dropped.
type modelShelf struct {
	rows  map[string]modelRow
	order []string // by last change
	floor uint64
}

type modelRow struct {
	version  uint64 // 0: none
	whiteout bool
	turn     uint64
}

func (r modelRow) live() bool { return r.version > 0 || r.whiteout }

type modelViewer struct {
	*Viewer
	proxy ProxyID
	types map[string]bool
}

func (s *modelShelf) set(turn uint64, name string, r modelRow) (touched bool) {
	old := s.rows[name]
	if old.version == r.version && old.whiteout == r.whiteout {
		return false
	}
	r.turn = turn
	s.rows[name] = r
	s.order = append(slices.DeleteFunc(s.order, func(n string) bool { return n == name }), name)
	return true
}

func (s *modelShelf) live() (n int) {
	for _, r := range s.rows {
		if r.live() {
			n++
		}
	}
	return n
}

// prune drops all tombstones: the model has so few that a shelf with watchers keeps them.
func (s *modelShelf) prune() {
	for name, r := range s.rows {
		if !r.live() {
			s.floor = max(s.floor, r.turn)
			delete(s.rows, name)
		}
	}
	s.order = slices.DeleteFunc(s.order, func(n string) bool { return s.rows[n].turn == 0 })
}

// shelf returns a shelf, which is made if there is none.
func (m *model) shelf(id shelfID) *modelShelf {
	if m.shelves[id] == nil {
		m.shelves[id] = &modelShelf{rows: map[string]modelRow{}}
	}
	return m.shelves[id]
}

// refs is how many attachments name a shelf.
func (m *model) refs(id shelfID) (n int) {
	for _, at := range m.attached {
		if at != nil && slices.Contains(at.Stacks[id.typ], id.key) {
			n++
		}
	}
	return n
}

func (m *model) watchers(id shelfID) (n int) {
	for _, w := range m.viewers {
		if at := m.attached[w.proxy]; at != nil && w.types[id.typ] && slices.Contains(at.Stacks[id.typ], id.key) {
			n++
		}
	}
	return n
}

// publish makes a turn, and returns the viewers that are woken.
func (m *model) publish(turn uint64, changes []Change, attach []Attach) map[*Viewer]bool {
	touched, woken := map[shelfID]bool{}, map[*Viewer]bool{}
	for _, c := range changes {
		id := shelfID{c.Type, c.Shelf}
		r := modelRow{whiteout: c.Whiteout}
		if c.Resource != nil {
			r.version = c.Resource.Version()
		}
		if m.shelf(id).set(turn, c.Name, r) {
			touched[id] = true
		}
	}
	for _, a := range attach {
		m.attach(a)
		for _, w := range m.viewers {
			woken[w.Viewer] = woken[w.Viewer] || w.proxy == a.Proxy
		}
	}
	for id := range touched {
		if m.watchers(id) == 0 {
			m.shelf(id).prune()
		}
		for _, w := range m.viewers {
			if at := m.attached[w.proxy]; at != nil && w.types[id.typ] && slices.Contains(at.Stacks[id.typ], id.key) {
				woken[w.Viewer] = true
			}
		}
		m.retire(id)
	}
	return woken
}

// retire drops a shelf that is empty and that no attachment names: it is a new one when it is named again.
func (m *model) retire(id shelfID) {
	if s := m.shelves[id]; s != nil && s.live() == 0 && m.refs(id) == 0 {
		delete(m.shelves, id)
	}
}

// attach replaces an attachment.
func (m *model) attach(a Attach) {
	old := m.attached[a.Proxy]
	m.attached[a.Proxy] = a.To
	if a.To != nil {
		for typ, keys := range a.To.Stacks {
			for _, key := range keys {
				m.shelf(shelfID{typ, key})
			}
		}
	}
	if old != nil {
		for typ, keys := range old.Stacks {
			for _, key := range keys {
				m.retire(shelfID{typ, key})
			}
		}
	}
}

var (
	modelTypes = []string{xdstype.ClusterURL, xdstype.VirtualHostURL, "type.googleapis.com/of.another"}
	modelNames = []string{"80/a", "80/b", "80/c", "90/a", "x", "y"}
	modelKeys  = []ShelfKey{"one", "two", 3}
)

// Attachment and Row make a model the tables of an audit.
type modelTables struct {
	*model
	lie func(typ string, key ShelfKey, name string, r Row) Row
}

func (m modelTables) Attachment(id ProxyID) *Attachment { return m.attached[id] }

func (m modelTables) Row(typ string, key ShelfKey, name string) (out Row) {
	if s := m.shelves[shelfID{typ, key}]; s != nil {
		r := s.rows[name]
		out = Row{Has: r.version > 0, Version: r.version, Whiteout: r.whiteout}
	}
	if m.lie != nil {
		return m.lie(typ, key, name, out)
	}
	return out
}

// TestLibraryIsPlainMaps compares a library with plain maps after each turn of random histories: the resources that each proxy sees, the
// streams that are woken, and the changes since each turn. The library keeps only names and rows that have a user.
func TestLibraryIsPlainMaps(t *testing.T) {
	for seed := range uint64(40) {
		p := &libraryPlay{
			T: t, rng: rand.New(rand.NewPCG(seed, 5)), lib: New(), //nolint:gosec // a test
			m: &model{shelves: map[shelfID]*modelShelf{}, attached: map[ProxyID]*Attachment{}},
		}
		p.lib.OnEdited(func(edited map[*Shelf]struct{}) {
			p.edited = map[shelfID]bool{}
			for s := range edited {
				p.edited[s.id] = true
			}
		})
		for range 150 {
			p.step()
			if t.Failed() {
				t.Fatalf("seed %d, turn %d", seed, p.turn)
			}
		}
		p.end()
	}
}

type libraryPlay struct {
	*testing.T
	rng    *rand.Rand
	lib    *Library
	m      *model
	turn   uint64
	edited map[shelfID]bool // by the last turn
}

// attachment returns random stacks, or none.
func (p *libraryPlay) attachment() *Attachment {
	if p.rng.IntN(6) == 0 {
		return nil
	}
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range modelTypes {
		for _, i := range p.rng.Perm(len(modelKeys))[:p.rng.IntN(len(modelKeys)+1)] {
			at.Stacks[typ] = append(at.Stacks[typ], modelKeys[i])
		}
	}
	return at
}

func (p *libraryPlay) step() {
	switch op := p.rng.IntN(20); {
	case op == 0 && len(p.m.viewers) < 5:
		proxy := ProxyID(fmt.Sprint("p", p.rng.IntN(3)))
		w := &modelViewer{p.lib.Open(proxy), proxy, map[string]bool{}}
		p.m.viewers = append(p.m.viewers, w)
		for range p.rng.IntN(4) {
			p.follow(w)
		}
	case op == 1 && len(p.m.viewers) > 0:
		i := p.rng.IntN(len(p.m.viewers))
		p.m.viewers[i].Close()
		p.m.viewers = slices.Delete(p.m.viewers, i, i+1)
	case op == 2 && len(p.m.viewers) > 0:
		p.follow(p.m.viewers[p.rng.IntN(len(p.m.viewers))])
	case op == 3:
		a := Attach{ProxyID(fmt.Sprint("p", p.rng.IntN(3))), p.attachment()}
		p.lib.Reattach(a)
		p.m.attach(a)
		for _, w := range p.m.viewers {
			if woken := len(w.Woken()) > 0; woken != (w.proxy == a.Proxy) {
				p.Errorf("%s is attached again: %s is woken: %v", a.Proxy, w.proxy, woken)
			}
		}
	default:
		p.publish()
	}
	p.compare()
	for _, w := range p.m.viewers {
		for len(w.Woken()) > 0 {
			<-w.Woken()
		}
	}
}

func (p *libraryPlay) follow(w *modelViewer) {
	typ := modelTypes[p.rng.IntN(len(modelTypes))]
	w.Follow(typ)
	w.types[typ] = true
}

// publish makes a turn of random changes, and checks who is woken by it.
func (p *libraryPlay) publish() {
	p.turn += 1 + p.rng.Uint64N(3)/2
	var changes []Change
	edited := map[shelfID]bool{}
	for range p.rng.IntN(5) {
		typ, key := modelTypes[p.rng.IntN(len(modelTypes))], modelKeys[p.rng.IntN(len(modelKeys))]
		name := modelNames[p.rng.IntN(len(modelNames))]
		c := put(key, typ, name, 1+p.rng.Uint64N(3))
		switch p.rng.IntN(5) {
		case 0:
			c.Resource, c.Whiteout = nil, true
		case 1, 2:
			c.Resource = nil
		}
		edited[shelfID{typ, key}] = true
		changes = append(changes, c)
	}
	var attach []Attach
	if p.rng.IntN(6) == 0 {
		attach = append(attach, Attach{ProxyID(fmt.Sprint("p", p.rng.IntN(3))), p.attachment()})
	}
	before, next := time.Now(), p.lib.NextTurn()
	p.lib.Publish(p.turn, changes, attach...)
	select {
	case <-next:
	default:
		p.Error("the turn is not announced")
	}
	if at, known := p.lib.PublishedAt(p.turn); !known || at.Before(before) || at.After(time.Now()) {
		p.Errorf("turn %d was published at %v, %v", p.turn, at, known)
	}
	if !maps.Equal(p.edited, edited) {
		p.Errorf("edited are %v, not %v", p.edited, edited)
	}
	woken := p.m.publish(p.turn, changes, attach)
	for _, w := range p.m.viewers {
		if have := len(w.Woken()) > 0; have != woken[w.Viewer] {
			p.Errorf("a stream of %s that follows %v is woken: %v", w.proxy, w.types, have)
		}
	}
}

// compare compares all of the library with the model.
func (p *libraryPlay) compare() {
	if p.lib.Turn() != p.turn {
		p.Errorf("turn %d is %d", p.turn, p.lib.Turn())
	}
	if len(p.lib.shelves) != len(p.m.shelves) {
		p.Errorf("%d shelves are known, not %d", len(p.lib.shelves), len(p.m.shelves))
	}
	contents, pages := map[content]int{}, 0
	for id, want := range p.m.shelves {
		s := p.lib.shelves[id]
		if s == nil {
			p.Fatalf("there is no shelf %v", id)
		}
		p.compareShelf(s, want, contents)
		pages += 8 * cap(s.rows.Pages)
	}
	if len(p.lib.contents) != len(contents) {
		p.Errorf("%d contents are known, not %d", len(p.lib.contents), len(contents))
	}
	for c, n := range contents {
		if r := p.lib.contents[c]; r == nil || r.rows != n || r.Entry() != c.name {
			p.Errorf("%d rows have %v: %+v", n, c, r)
		}
	}
	if f := p.lib.Footprint(); f.Rows != pages {
		p.Errorf("the footprint is %+v; the tables have %d bytes", f, pages)
	}
	for _, w := range p.m.viewers {
		at := p.m.attached[w.proxy]
		read := w.Read(func(v *View) { p.compareView(v, at) })
		if read != (at != nil) {
			p.Errorf("%s reads: %v", w.proxy, read)
		}
	}
}

func (p *libraryPlay) compareShelf(s *Shelf, want *modelShelf, contents map[content]int) {
	var order []string
	byOwner := map[string][]string{}
	for r := s.oldest; r != nil; r = r.newer {
		order = append(order, r.name.Text())
		if r.newer == nil && s.newest != r || r.newer != nil && r.newer.older != r {
			p.Errorf("%v: the rows are not in order", s.id)
		}
		if s.row(r.name) != r {
			p.Errorf("%v: %s has another row", s.id, r.name)
		}
		have := modelRow{whiteout: r.whiteout, turn: r.turn}
		if r.res != nil {
			have.version = r.res.Version()
			contents[content{s.id.typ, r.name, r.res.Version()}]++
		}
		if have != want.rows[r.name.Text()] {
			p.Errorf("%v: %s is %+v, not %+v", s.id, r.name, have, want.rows[r.name.Text()])
		}
		if o := r.name.Owner(); o != nil && s.id.typ == xdstype.VirtualHostURL {
			byOwner[o.Text()] = append(byOwner[o.Text()], r.name.Text())
		}
	}
	if !slices.Equal(order, want.order) || s.total != len(order) || s.live != want.live() || s.floor != want.floor ||
		s.refs != p.m.refs(s.id) || len(s.watchers) != p.m.watchers(s.id) {
		p.Errorf("%v has rows %v, %d, %d live, floor %d, %d references, %d watchers; want %v, floor %d", s.id, order, s.total, s.live,
			s.floor, s.refs, len(s.watchers), want.order, want.floor)
	}
	if len(s.members) != len(byOwner) {
		p.Errorf("%v has members of %d owners, not %d", s.id, len(s.members), len(byOwner))
	}
	for o, all := range s.members {
		var have []string
		for i, r := range all {
			if have = append(have, r.name.Text()); r.place != i {
				p.Errorf("%v: %s is at %d, not %d", s.id, r.name, i, r.place)
			}
		}
		if slices.Sort(have); !slices.Equal(have, slices.Sorted(slices.Values(byOwner[o.Text()]))) {
			p.Errorf("%v: members of %s are %v, not %v", s.id, o, have, byOwner[o.Text()])
		}
		for _, r := range all[len(all):cap(all)] {
			if r != nil {
				p.Errorf("%v: %s is kept behind the members", s.id, r.name)
			}
		}
	}
}

// compareView compares what a proxy sees.
func (p *libraryPlay) compareView(v *View, at *Attachment) {
	for _, typ := range modelTypes {
		stack := v.Stack(typ)
		if len(stack) != len(at.Stacks[typ]) {
			p.Fatalf("%d shelves of %s, not %d", len(stack), typ, len(at.Stacks[typ]))
		}
		each, members := []string{}, map[string]int{}
		since := map[uint64][]string{}
		floor := uint64(0)
		for _, key := range at.Stacks[typ] {
			s := p.m.shelves[shelfID{typ, key}]
			floor = max(floor, s.floor)
			for _, name := range s.order {
				r := s.rows[name]
				if r.version > 0 {
					each = append(each, name)
					if o := owner(name); o != "" && typ == xdstype.VirtualHostURL {
						members[o+" "+name]++
					}
				}
				for cursor := p.turn - min(p.turn, 40); cursor < r.turn; cursor++ {
					since[cursor] = append(since[cursor], fmt.Sprint(name, " ", r.turn))
				}
			}
		}
		var have []string
		stack.Each(func(e *Entry) { have = append(have, e.Text()) })
		if !slices.Equal(have, each) && len(have)+len(each) > 0 {
			p.Errorf("the proxy sees %v of %s, not %v", have, typ, each)
		}
		for cursor := p.turn - min(p.turn, 40); cursor <= p.turn; cursor++ {
			var have []string
			known := stack.Since(cursor, func(e *Entry, turn uint64) { have = append(have, fmt.Sprint(e, " ", turn)) })
			if known != (cursor >= floor) || known && !slices.Equal(have, since[cursor]) {
				p.Errorf("since %d, %s changed %v, known: %v; want %v since %d", cursor, typ, have, known, since[cursor], floor)
			}
		}
		for _, name := range modelNames {
			p.compareName(v, at, typ, name)
		}
		for _, o := range []string{"80", "90", "x"} {
			stack.Members(v.Enter(o), func(e *Entry) { members[o+" "+e.Text()]-- })
		}
		for name, n := range members {
			if n != 0 {
				p.Errorf("member %s of %s was yielded %d times too few", name, typ, n)
			}
		}
	}
}

func (p *libraryPlay) compareName(v *View, at *Attachment, typ, name string) {
	want, changed := uint64(0), uint64(0)
	for _, key := range at.Stacks[typ] {
		r := p.m.shelves[shelfID{typ, key}].rows[name]
		if r.live() {
			want = r.version
		}
		changed = max(changed, r.turn)
	}
	e := v.Enter(name)
	have := uint64(0)
	if r := v.Stack(typ).Resolve(e); r != nil {
		have = r.Version()
	}
	if have != want || v.Stack(typ).Changed(e) != changed {
		p.Errorf("%s %s is seen as %d, changed in turn %d; want %d, %d", typ, name, have, v.Stack(typ).Changed(e), want, changed)
	}
}

// end takes everything away: nothing is left.
func (p *libraryPlay) end() {
	for _, w := range p.m.viewers {
		w.Close()
	}
	p.m.viewers = nil
	var changes []Change
	for id, shelf := range p.m.shelves {
		for name := range shelf.rows {
			changes = append(changes, remove(id.key, id.typ, name))
		}
	}
	detach := []Attach{{Proxy: "p0"}, {Proxy: "p1"}, {Proxy: "p2"}}
	p.m.publish(p.turn+1, changes, detach)
	p.lib.Publish(p.turn+1, changes, detach...)
	if n := len(p.lib.shelves) - len(p.m.shelves) + len(p.lib.bindings) + len(p.lib.contents); n != 0 {
		p.Errorf("%d shelves, %d bindings and %d contents are left", len(p.lib.shelves), len(p.lib.bindings), len(p.lib.contents))
	}
}
