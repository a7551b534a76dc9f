package compile

import (
	"fmt"

	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// maxRefusals is how many refusals are kept of the proxies of one identity. A mistake that all proxies refuse is told by any one of them.
const maxRefusals = 64

// refusals knows which rows of input.Tables.Rejections there are, by who said them: so that they are bounded for each
// identity and go with their proxy, without a walk over what others said. Only the owner of the turns uses it.
type refusals map[string]map[input.Rejected]struct{}

// Reject takes what a proxy said when it refused resources of a type (a type URL). For the owner of the turns; it
// becomes a row in the next one.
func (g *Graph) Reject(typeURL string, names []string, proxy mesh.ProxyID, detail string) {
	typ, ok := xdstype.Of(typeURL)
	if !ok {
		return
	}
	detail = printable.Lines(detail, printable.Long)
	g.Store.Read(func(tx *table.Tx) {
		g.forgetOld(tx, proxy.Identity())
		attachment, _ := table.Lookup(tx, g.Out.Attachments, proxy)
		for _, name := range names {
			g.reject(tx, typ, name, attachment[typ], input.Refusal{Detail: detail}, proxy)
		}
		if typ == xdstype.Listeners {
			g.Gateway.Refused(tx, proxy, detail)
		}
	})
}

// reject keeps the refusal of the resource that the proxy sees under a name.
func (g *Graph) reject(tx *table.Tx, typ xdstype.Type, name string, shelves []mesh.Shelf, said input.Refusal, proxy mesh.ProxyID) {
	for i := len(shelves) - 1; i >= 0; i-- {
		k := input.Rejected{Proxy: proxy, Type: typ, Key: mesh.ResourceKey{Shelf: shelves[i], Name: name}}
		version, ok := g.Out.version(tx, typ, k.Key)
		if !ok {
			continue
		}
		said.Version = version
		all := g.refusals[proxy.Identity()]
		if all == nil {
			all = map[input.Rejected]struct{}{}
			g.refusals[proxy.Identity()] = all
		}
		if _, known := all[k]; known || len(all) < maxRefusals {
			all[k] = struct{}{}
			g.In.Rejections.Set(k, said)
		}
		return
	}
}

// forgetOld drops an identity's refusals of resources that have changed since.
func (g *Graph) forgetOld(tx *table.Tx, identity string) {
	for k := range g.refusals[identity] {
		said, staged := table.Lookup(tx, g.In.Rejections.Table, k)
		if !staged {
			continue // it is not older than this turn
		}
		if version, ok := g.Out.version(tx, k.Type, k.Key); !ok || version != said.Version {
			g.unreject(k)
		}
	}
}

// Retract drops what a proxy refused of a type (a type URL). For the owner of the turns, before it says what it refuses now.
func (g *Graph) Retract(typeURL string, proxy mesh.ProxyID) {
	typ, _ := xdstype.Of(typeURL)
	for k := range g.refusals[proxy.Identity()] {
		if k.Proxy == proxy && k.Type == typ {
			g.unreject(k)
		}
	}
}

// Forget drops what a proxy refused. For the owner of the turns, when the proxy is gone.
func (g *Graph) Forget(proxy mesh.ProxyID) {
	for k := range g.refusals[proxy.Identity()] {
		if k.Proxy == proxy {
			g.unreject(k)
		}
	}
}

func (g *Graph) unreject(k input.Rejected) {
	identity := k.Proxy.Identity()
	delete(g.refusals[identity], k)
	if len(g.refusals[identity]) == 0 {
		delete(g.refusals, identity)
	}
	g.In.Rejections.Delete(k)
}

// refused turns refusals that still hold into problems of the objects that the resource was made from; what several
// proxies say of one resource in the same words is one.
func (g *Graph) refused(tx *table.Tx) []mesh.Problem {
	type told struct {
		typ    xdstype.Type
		detail string
		key    mesh.ResourceKey
	}
	known := map[told]bool{}
	var out []mesh.Problem
	for k, v := range table.All(tx, g.In.Rejections.Table) {
		this := told{k.Type, v.Detail, k.Key}
		t, ok := g.Out.holder(tx, k.Type, k.Key)
		if !ok || known[this] {
			continue
		}
		if e, _ := table.Lookup(tx, t, k.Key); e.Version != v.Version {
			continue
		}
		known[this] = true
		for _, ref := range g.culprits(tx, t, k) {
			out = append(out, mesh.Problem{Object: ref, Code: code.Refused, Severity: mesh.Error,
				Message: fmt.Sprintf("a proxy refused the %s %s that was made of this: %s", k.Type, k.Key.Name, v.Detail)})
		}
	}
	return out
}
