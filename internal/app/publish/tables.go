package publish

import (
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

var _ library.Tables = (*Publisher)(nil)

// Attachment implements library.Tables.
func (p *Publisher) Attachment(id library.ProxyID) (out *library.Attachment) {
	if _, held := p.pendingAttachments[mesh.ProxyID(id)]; held {
		return nil
	}
	p.graph.Store.Read(func(tx *table.Tx) {
		if a, ok := table.Lookup(tx, p.graph.Out.Attachments, mesh.ProxyID(id)); ok {
			out = attachment(a)
		} else if p.reads(tx, id) {
			out = &p.exported
		}
	})
	return out
}

// Row implements library.Tables.
func (p *Publisher) Row(typ string, key library.ShelfKey, name string) (out library.Row) {
	if key == exportShelf {
		if e := p.exportRow(typ, name); e != nil {
			out = library.Row{Has: true, Version: e.Version, Kept: e.Err != nil}
		}
		return out
	}
	if c := p.row(library.RowKey{Type: typ, Shelf: key, Name: name}); c.Has {
		out = library.Row{Has: true, Version: c.New.Version, Kept: c.New.Err != nil && !c.New.Hides, Whiteout: c.New.Hides}
	}
	return out
}

// row returns the tables' row under a name of a shelf, as a change that sets it.
func (p *Publisher) row(k library.RowKey) (out rowChange) {
	handle, ok := k.Shelf.(shelfHandle)
	typ, known := xdstype.Of(k.Type)
	if !ok || !known {
		return out
	}
	out.Key = mesh.ResourceKey{Shelf: handle.Value(), Name: k.Name}
	p.graph.Store.Read(func(tx *table.Tx) { out.New, out.Has = p.graph.Out.Lookup(tx, typ, out.Key) })
	return out
}

// PublishWithNext publishes rows with the next turn. An audit found that their published versions differ from the tables.
func (p *Publisher) PublishWithNext(rows []library.RowKey) { p.again = append(p.again, rows...) }

// publishAgain lists the rows that PublishWithNext was given, as changes.
func (p *Publisher) publishAgain() (out []library.Change) {
	for _, k := range p.again {
		if k.Shelf == exportShelf {
			e := p.exportRow(k.Type, k.Name)
			if e == nil || e.Err == nil {
				out = append(out, exportChange(k.Type, k.Name, e))
			}
			continue
		}
		if c, ok := change(k.Type, p.row(k)); ok {
			out = append(out, c)
		}
	}
	p.again = nil
	return out
}
