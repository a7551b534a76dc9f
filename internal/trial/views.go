package trial

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/compile"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Views are what connected proxies see before and after a turn. Proxies that see the same shelves are compared once.
type Views struct {
	c     *comparison
	whole bool // all proxies are compared
	all   []*alike
	now   map[mesh.ProxyID]mesh.Attachment // of those that are connected
}

// alike are proxies of one kind that see the same shelves, before a turn and after it.
type alike struct {
	before, now mesh.Attachment
	proxies     []mesh.ProxyID // in order
}

// Compare returns the views of the connected proxies that of selects, and of those that see nothing any more; nil selects all. The caller
// is the same as that of Differences.
func Compare(g *compile.Graph, tx *table.Tx, of func(mesh.ProxyID) bool) *Views {
	v := &Views{c: compare(tx, g.Out), whole: of == nil, now: map[mesh.ProxyID]mesh.Attachment{}}
	groups := map[string]*alike{}
	for id, a := range attached(g, table.Each(tx, g.Out.Attachments)) {
		if of != nil && !of(id) {
			continue
		}
		if !a.gone {
			v.now[id] = a.now
		}
		k := name(id.IsRouter(), a.before, a.now)
		if groups[k] == nil {
			groups[k] = &alike{before: a.before, now: a.now}
		}
		groups[k].proxies = append(groups[k].proxies, id)
	}
	for _, a := range groups {
		slices.Sort(a.proxies)
	}
	v.all = slices.SortedFunc(maps.Values(groups), func(a, b *alike) int { return cmp.Compare(a.proxies[0], b.proxies[0]) })
	return v
}

// name names a pair of attachments of gateways, or of other proxies.
func name(router bool, all ...mesh.Attachment) string {
	var b strings.Builder
	if router {
		b.WriteByte('r')
	}
	for _, a := range all {
		for _, stack := range a {
			b.WriteString(strconv.Itoa(len(stack)))
			for _, s := range stack {
				b.WriteByte(byte(s.Kind))
				for _, part := range []string{s.Namespace, s.Name, string(s.Clients), s.Part} {
					b.WriteString(strconv.Itoa(len(part)))
					b.WriteByte(' ')
					b.WriteString(part)
				}
			}
			b.WriteByte(';')
		}
	}
	return b.String()
}

// Connected is how many of the proxies are connected after the turn.
func (v *Views) Connected() int { return len(v.now) }

// Differences yields proxies that see the same, in order, with what the turn made different for each. It may be called while Compare may.
func (v *Views) Differences() iter.Seq2[[]mesh.ProxyID, iter.Seq[Difference]] {
	return func(yield func([]mesh.ProxyID, iter.Seq[Difference]) bool) {
		for _, a := range v.all {
			if !yield(a.proxies, v.c.differences(a.before, a.now)) {
				return
			}
		}
	}
}

// After returns what a proxy sees under a name after the turn; nil: nothing. If the turn was a trial, it may be called when the trial is
// over: tx then reads the tables as they are, and what the trial changed comes first.
func (v *Views) After(tx *table.Tx, id mesh.ProxyID, typ xdstype.Type, name string) *envoy.Encoded {
	return v.c.top(int(typ), v.now[id][typ], name, func(typ int, k mesh.ResourceKey) (*envoy.Encoded, bool) {
		if made, changed := v.c.changes[typ][k]; changed {
			return made.New, made.Has
		}
		return v.c.out.Lookup(tx, xdstype.Type(typ), k)
	})
}

// Refused is a resource that would not be sent, because its own validation refuses it.
type Refused struct {
	Type xdstype.Type
	Name string
	Err  error
}

// Refused lists the resources that the turn made so, and that one of the proxies would see. It lists all of them if all proxies are
// compared. It may be called when the turn is over.
func (v *Views) Refused() (out []Refused) {
	var shelves [xdstype.Types]map[mesh.Shelf]bool
	for typ := range shelves {
		shelves[typ] = map[mesh.Shelf]bool{}
		for _, a := range v.all {
			for _, s := range a.now[typ] {
				shelves[typ][s] = true
			}
		}
	}
	for typ, changes := range v.c.changes {
		for k, c := range changes {
			again := c.Had && c.Old.Err != nil && c.New != nil && c.New.Err != nil && c.Old.Err.Error() == c.New.Err.Error()
			if c.Has && c.New.Err != nil && !again && (v.whole || shelves[typ][k.Shelf]) {
				out = append(out, Refused{xdstype.Type(typ), k.Name, c.New.Err})
			}
		}
	}
	return out
}
