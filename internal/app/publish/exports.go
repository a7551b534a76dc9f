package publish

import (
	"fairway/internal/compile/exported"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// shelfOfExports names the shelf with the resources for other control planes.
type shelfOfExports struct{}

var exportShelf library.ShelfKey = shelfOfExports{}

// exportAttachment returns the view of other control planes: all types.
func exportAttachment() library.Attachment {
	out := library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range exported.Types() {
		out.Stacks[typ] = []library.ShelfKey{exportShelf}
	}
	return out
}

// exports lists the turn's changes of resources for other control planes: each object under the types of all its versions.
func (p *Publisher) exports() (out []library.Change) {
	for c := range table.Changes(p.graph.Exported.Resources) {
		if c.Has && c.New.Err != nil {
			continue // they keep what they have
		}
		for _, typ := range exported.TypesOf(c.Key) {
			e := c.New
			if !c.Has {
				e = nil
			}
			out = append(out, exportChange(typ, exported.Name(c.Key), e))
		}
	}
	return out
}

// exportChange puts an object under its name; nil takes it away.
func exportChange(typ, name string, e *envoy.Encoded) library.Change {
	out := library.Change{Shelf: exportShelf, Type: typ, Name: name}
	if e != nil {
		out.Resource = library.NewResource(typ, name, e.Version, e.Body, library.ResourceOptions{Message: xdstype.ObjectURL})
	}
	return out
}

// exportRow returns the tables' row under a name; nil: there is none.
func (p *Publisher) exportRow(typ, name string) (out *envoy.Encoded) {
	if k, ok := exported.KeyOf(typ, name); ok {
		p.graph.Store.Read(func(tx *table.Tx) { out, _ = table.Lookup(tx, p.graph.Exported.Resources, k) })
	}
	return out
}

// readers lists the control planes that have come and gone.
func (p *Publisher) readers() (out []library.Attach) {
	for c := range table.Changes(p.graph.Exported.Readers.Table) {
		a := library.Attach{Proxy: library.ProxyID(c.Key)}
		if c.Has {
			a.To = &p.exported
		}
		out = append(out, a)
	}
	return out
}

// reads reports whether a stream is another control plane's.
func (p *Publisher) reads(tx *table.Tx, id library.ProxyID) bool {
	_, ok := table.Lookup(tx, p.graph.Exported.Readers.Table, mesh.ProxyID(id))
	return ok
}
