package publish

import (
	"unique"

	"fairway/internal/compile"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// Publisher turns the rows that a turn changed into changes of the library. Only the loop calls it.
type Publisher struct {
	graph              *compile.Graph
	library            *library.Library
	again              []library.RowKey                 // to be published with the next turn although it did not change them
	waiting            map[mesh.ProxyID]struct{}        // proxies with resources that are not known yet
	pendingAttachments map[mesh.ProxyID]mesh.Attachment // those of waiting that have not been sent anything

	exported library.Attachment // what other control planes see

	published int                // resources of the last Publish
	byType    [xdstype.Types]int // those that proxies are sent
}

// rowChange is a turn's change of one resource's row.
type rowChange = table.Change[mesh.ResourceKey, *envoy.Encoded]

// New returns a publisher of the graph's rows to the library.
func New(g *compile.Graph, l *library.Library) *Publisher {
	return &Publisher{
		graph: g, library: l,
		waiting: map[mesh.ProxyID]struct{}{}, pendingAttachments: map[mesh.ProxyID]mesh.Attachment{}, exported: exportAttachment(),
	}
}

// Publish hands the turn's changes to the library and returns how many resources changed.
func (p *Publisher) Publish(turn table.Turn) int {
	changes := append(p.publishAgain(), p.exports()...)
	p.byType = [xdstype.Types]int{}
	for _, c := range changes {
		if typ, ok := xdstype.Of(c.Type); ok {
			p.byType[typ]++
		}
	}
	for kind, tables := range p.graph.Out.Resources {
		of := changesOf(xdstype.Type(kind).URL(), tables)
		p.byType[kind] += len(of)
		changes = append(changes, of...)
	}
	attach := append(p.attachments(), p.readers()...)
	if len(changes)+len(attach) > 0 {
		p.library.Publish(turn.Version, changes, attach...)
	}
	p.published = len(changes)
	return p.published
}

// changesOf lists the turn's changes of resources of a type. If a row is gone from one table and another table has its key now, proxies
// keep the resource.
func changesOf(typeURL string, tables []*compile.Published) (out []library.Change) {
	var gone []rowChange
	add := func(c rowChange) {
		if change, ok := change(typeURL, c); ok {
			out = append(out, change)
		}
	}
	for _, t := range tables {
		for c := range table.Changes(t) {
			if c.Has {
				add(c)
			} else {
				gone = append(gone, c)
			}
		}
	}
	if len(gone) == 0 {
		return out
	}
	held := map[mesh.ResourceKey]struct{}{}
	for _, t := range tables {
		for c := range table.Changes(t) {
			if c.Has {
				held[c.Key] = struct{}{}
			}
		}
	}
	for _, c := range gone {
		if _, moved := held[c.Key]; !moved {
			add(c)
		}
	}
	return out
}

// Published returns how many resources the last Publish handed over.
func (p *Publisher) Published() int { return p.published }

// PublishedByType returns how many resources of each type that proxies are sent the last Publish handed over.
func (p *Publisher) PublishedByType() [xdstype.Types]int { return p.byType }

// change converts a row's change to a change of its shelf. A row that may not be sent changes nothing, so that proxies keep what they have,
// unless the row says that they must not.
func change(typeURL string, c rowChange) (library.Change, bool) {
	out := library.Change{Shelf: shelf(c.Key.Shelf), Type: typeURL, Name: c.Key.Name}
	if !c.Has {
		return out, true
	}
	if c.New.Err != nil {
		out.Whiteout = c.New.Hides
		return out, out.Whiteout
	}
	out.Resource = resource(typeURL, c.Key.Name, c.New)
	return out, true
}

func resource(typeURL, name string, e *envoy.Encoded) *library.Resource {
	opts := library.ResourceOptions{Needs: e.Needs, Load: e.Load}
	if e.WithoutVHDS != nil {
		const virtualHosts = 2 // field number in envoy.config.route.v3.RouteConfiguration
		opts.StateForm = &library.Part{
			Body: e.WithoutVHDS.Body, MemberType: xdstype.VirtualHostURL, MemberPrefix: e.WithoutVHDS.Prefix, Field: virtualHosts,
		}
	}
	return library.NewResource(typeURL, name, e.Version, e.Body, opts)
}

// attachments lists the changes of proxies' stacks of shelves. A proxy that has just connected is held back while a Secret that its
// listeners name, or the keys of an issuer of tokens, have not been looked for yet: resources without them would take away what the proxy
// may already have.
func (p *Publisher) attachments() (out []library.Attach) {
	for c := range table.Changes(p.graph.Waiting) {
		if c.Has {
			p.waiting[c.Key] = struct{}{}
		} else {
			delete(p.waiting, c.Key)
		}
	}
	for c := range table.Changes(p.graph.Out.Attachments) {
		_, held := p.pendingAttachments[c.Key]
		if _, waits := p.waiting[c.Key]; c.Has && (held || waits && !c.Had) {
			p.pendingAttachments[c.Key] = c.New
			continue
		}
		delete(p.pendingAttachments, c.Key)
		if !held {
			out = append(out, attach(c.Key, c.New, c.Has))
		}
	}
	for id, a := range p.pendingAttachments {
		if _, waits := p.waiting[id]; !waits {
			delete(p.pendingAttachments, id)
			out = append(out, attach(id, a, true))
		}
	}
	return out
}

func attach(id mesh.ProxyID, to mesh.Attachment, has bool) library.Attach {
	a := library.Attach{Proxy: library.ProxyID(id)}
	if has {
		a.To = attachment(to)
	}
	return a
}

func attachment(a mesh.Attachment) *library.Attachment {
	out := &library.Attachment{Stacks: make(map[string][]library.ShelfKey, len(a))}
	for t, shelves := range a {
		out.Stacks[xdstype.Type(t).URL()] = stack(shelves)
	}
	return out
}

func stack(shelves []mesh.Shelf) []library.ShelfKey {
	keys := make([]library.ShelfKey, len(shelves))
	for i, s := range shelves {
		keys[i] = shelf(s)
	}
	return keys
}

// shelf makes a shelf's key from all its properties, not from a text: labels and namespaces come from outside, and could give two shelves
// the same text. A key without users is freed.
func shelf(s mesh.Shelf) library.ShelfKey { return unique.Make(s) }

type shelfHandle = unique.Handle[mesh.Shelf]
