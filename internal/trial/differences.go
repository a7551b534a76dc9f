package trial

import (
	"iter"
	"slices"

	"fairway/internal/compile"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Difference is a resource that a proxy would be sent, or that would be removed from it, because of a turn.
type Difference struct {
	Type xdstype.Type
	Name string
	// Old is what the proxy saw before the turn, and New what it sees now; nil: nothing. If Old could not be sent (its Err is set), the
	// proxy has kept a version from before, or has none.
	Old, New *envoy.Encoded
}

// Differences yields the connected proxies with what the last turn made different for each: first proxies that see nothing any more, then
// all others, each time in order. Its cost is a look at each proxy, and at the names that changed for it. Only the owner of the turns may
// call it, before the changes of the turn are forgotten, or in a trial (compile.Graph.Try).
func Differences(g *compile.Graph, tx *table.Tx) iter.Seq2[mesh.ProxyID, iter.Seq[Difference]] {
	return func(yield func(mesh.ProxyID, iter.Seq[Difference]) bool) {
		c := compare(tx, g.Out)
		for id, a := range attached(g, table.All(tx, g.Out.Attachments)) {
			if !yield(id, c.differences(a.before, a.now)) {
				return
			}
		}
	}
}

// attachments are a proxy's before the last turn and after it.
type attachments struct {
	before, now mesh.Attachment
	gone        bool // it is not connected any more
}

// attached yields proxies that see nothing any more, and then all, which are those that see something after the turn.
func attached(g *compile.Graph, all iter.Seq2[mesh.ProxyID, mesh.Attachment]) iter.Seq2[mesh.ProxyID, attachments] {
	return func(yield func(mesh.ProxyID, attachments) bool) {
		moved := map[mesh.ProxyID]mesh.Attachment{}
		for m := range table.Changes(g.Out.Attachments) {
			if moved[m.Key] = m.Old; !m.Has && !yield(m.Key, attachments{before: m.Old, gone: true}) {
				return
			}
		}
		for id, now := range all {
			before, other := moved[id]
			if !other {
				before = now
			}
			if !yield(id, attachments{before: before, now: now}) {
				return
			}
		}
	}
}

// comparison compares the views of proxies before a turn and after it.
type comparison struct {
	tx      *table.Tx
	out     compile.Outputs
	changes [xdstype.Types]map[mesh.ResourceKey]table.Change[mesh.ResourceKey, *envoy.Encoded]
	names   [xdstype.Types]map[mesh.Shelf][]string // that changed on a shelf
	all     [xdstype.Types]map[mesh.Shelf][]string // on a shelf after the turn; nil: not listed yet
}

func compare(tx *table.Tx, of compile.Outputs) *comparison {
	out := &comparison{tx: tx, out: of}
	for typ := range of.Resources {
		out.changes[typ], out.names[typ] = map[mesh.ResourceKey]table.Change[mesh.ResourceKey, *envoy.Encoded]{}, map[mesh.Shelf][]string{}
		for _, t := range of.Resources[typ] {
			for c := range table.Changes(t) {
				switch twice, is := out.changes[typ][c.Key]; { // if one table gave the row up, another one has it now
				case is && !c.Had:
					c.Old, c.Had = twice.Old, twice.Had
				case is && !c.Has:
					c.New, c.Has = twice.New, twice.Has
				}
				out.changes[typ][c.Key] = c
				out.names[typ][c.Key.Shelf] = append(out.names[typ][c.Key.Shelf], c.Key.Name)
			}
		}
	}
	return out
}

// differences yields what differs for a proxy, which sees other shelves, or other resources on the same ones, in order of type and name.
func (c *comparison) differences(before, now mesh.Attachment) iter.Seq[Difference] {
	return func(yield func(Difference) bool) {
		for typ := range now {
			names := c.candidates(typ, before[typ], now[typ])
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				d := Difference{Type: xdstype.Type(typ), Name: name}
				d.Old, d.New = c.top(typ, before[typ], name, c.before), c.top(typ, now[typ], name, c.after)
				if !same(d.Old, d.New) && !yield(d) {
					return
				}
			}
		}
	}
}

// candidates lists the names that may have changed for a proxy: those that changed on a shelf, and all of a shelf that is seen only before
// or only after.
func (c *comparison) candidates(typ int, before, now []mesh.Shelf) (out []string) {
	add := func(here, there []mesh.Shelf) {
		for _, s := range here {
			out = append(out, c.names[typ][s]...)
			if !slices.Contains(there, s) {
				out = append(out, c.allOf(typ, s)...)
			}
		}
	}
	add(before, now)
	if !slices.Equal(before, now) {
		add(now, before)
	}
	return out
}

// allOf lists the names on a shelf. All shelves of a type are listed at the first call: only proxies that would see other shelves need
// this.
func (c *comparison) allOf(typ int, s mesh.Shelf) []string {
	if c.all[typ] == nil {
		c.all[typ] = map[mesh.Shelf][]string{}
		for _, t := range c.out.Resources[typ] {
			for k := range table.Each(c.tx, t) {
				c.all[typ][k.Shelf] = append(c.all[typ][k.Shelf], k.Name)
			}
		}
	}
	return c.all[typ][s]
}

// top returns the resource that a proxy sees under a name; nil: none.
func (c *comparison) top(
	typ int, stack []mesh.Shelf, name string, row func(typ int, k mesh.ResourceKey) (*envoy.Encoded, bool),
) *envoy.Encoded {
	for _, s := range slices.Backward(stack) {
		switch e, has := row(typ, mesh.ResourceKey{Shelf: s, Name: name}); {
		case !has:
		case e.Err != nil && e.Hides:
			return nil
		default:
			return e
		}
	}
	return nil
}

func (c *comparison) before(typ int, k mesh.ResourceKey) (*envoy.Encoded, bool) {
	if was, changed := c.changes[typ][k]; changed {
		return was.Old, was.Had
	}
	return c.after(typ, k)
}

func (c *comparison) after(typ int, k mesh.ResourceKey) (*envoy.Encoded, bool) {
	return c.out.Lookup(c.tx, xdstype.Type(typ), k)
}

// same reports whether a proxy would be sent nothing: if the new row may not be sent, the proxy keeps what it has.
func same(old, now *envoy.Encoded) bool {
	switch {
	case now != nil && now.Err != nil:
		return true
	case old == nil || now == nil:
		return old == now
	}
	return old.Err == nil && old.Version == now.Version
}
