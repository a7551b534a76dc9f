package publish

import (
	"slices"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Reach lists the connected proxies that are affected by an object.
type Reach struct {
	Proxies int            // that would be sent something else, or nothing, without the object
	Some    []mesh.ProxyID // the first of them, in order
}

// someProxies is how many proxies are named.
const someProxies = 5

// Reach returns the proxies that an object affects. It makes a turn without the object, compares what each proxy would see with what it
// sees, and takes the turn back: nothing is sent. False: there is no such object. Only the loop calls it, between turns. It costs as much
// as to delete the object and set it again, and a look at each connected proxy.
func (p *Publisher) Reach(k config.Key) (out Reach, has bool) {
	has = p.graph.Without(k, func(tx *table.Tx) {
		c := compare(tx, p.graph.Out.Resources)
		moved := map[mesh.ProxyID]mesh.Attachment{}
		for m := range table.Changes(p.graph.Out.Attachments) {
			if m.Had {
				moved[m.Key] = m.Old
			}
		}
		for id, now := range table.All(tx, p.graph.Out.Attachments) {
			before, other := moved[id]
			if !other {
				before = now
			}
			if !c.differs(&before, &now) {
				continue
			}
			if out.Proxies++; len(out.Some) < someProxies {
				out.Some = append(out.Some, id)
			}
		}
	})
	return out, has
}

// Proxies is how many proxies are connected.
func (p *Publisher) Proxies() (n int) {
	p.graph.Store.Read(func(tx *table.Tx) { n = table.Len(tx, p.graph.Out.Attachments) })
	return n
}

// comparison compares the views of proxies before a turn and after it.
type comparison struct {
	tx      *table.Tx
	tables  [xdstype.Types][]*compile.Published
	changes [xdstype.Types]map[mesh.ResourceKey]rowChange
	names   [xdstype.Types]map[mesh.Shelf][]string // that changed on a shelf
	all     [xdstype.Types]map[mesh.Shelf][]string // on a shelf after the turn; nil: not listed yet
}

func compare(tx *table.Tx, tables [xdstype.Types][]*compile.Published) *comparison {
	out := &comparison{tx: tx, tables: tables}
	for typ := range tables {
		out.changes[typ], out.names[typ] = map[mesh.ResourceKey]rowChange{}, map[mesh.Shelf][]string{}
		for _, t := range tables[typ] {
			for c := range table.Changes(t) {
				if twice, is := out.changes[typ][c.Key]; is && !c.Had { // one table gave the row up, another one has it now
					c.Old, c.Had = twice.Old, twice.Had
				}
				out.changes[typ][c.Key] = c
				out.names[typ][c.Key.Shelf] = append(out.names[typ][c.Key.Shelf], c.Key.Name)
			}
		}
	}
	return out
}

// differs reports whether a proxy would see something else, by other shelves or on the same ones.
func (c *comparison) differs(before, now *mesh.Attachment) bool {
	for typ := range now {
		for _, name := range c.candidates(typ, before[typ], now[typ]) {
			if !same(c.top(typ, before[typ], name, c.before), c.top(typ, now[typ], name, c.after)) {
				return true
			}
		}
	}
	return false
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
		for _, t := range c.tables[typ] {
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
	return lookup(c.tx, c.tables[typ], k)
}

// same reports whether a proxy would be sent nothing: if a row may not be sent, the proxy keeps what it has.
func same(a, b *envoy.Encoded) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Err != nil || b.Err != nil || a.Version == b.Version
}
