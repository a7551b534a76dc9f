package compile

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// maxRefusals is the number of refusals that are kept for the proxies of one identity. If all proxies refuse a mistake, any one of them
// reports it.
const maxRefusals = 64

// refusals records the rows of input.Tables.Rejections by identity. So they are bounded for each identity and go with their proxy, without
// a walk over the rows of others.
type refusals struct {
	mu sync.Mutex // also held while they are staged, so that rows and by agree
	by map[string]map[input.Rejected]struct{}
	// files are files that proxies cannot read: for each proxy only files that its resources name.
	files map[mesh.ProxyID][]string
}

// Reject takes the message of a proxy that refused resources of a type (a type URL). Any goroutine may call it. The message becomes a row
// in the next turn. Reject waits for a turn that is under way.
func (g *Graph) Reject(typeURL string, names []string, proxy mesh.ProxyID, detail string) {
	typ, ok := xdstype.Of(typeURL)
	if !ok {
		return
	}
	detail = printable.Lines(detail, printable.Long)
	g.refusals.mu.Lock()
	defer g.refusals.mu.Unlock()
	g.Store.Read(func(tx *table.Tx) {
		g.forgetOld(tx, proxy.Identity())
		attachment, _ := table.Lookup(tx, g.Out.Attachments, proxy)
		for _, name := range names {
			g.reject(tx, typ, name, attachment[typ], input.Refusal{Detail: detail}, proxy)
		}
		if typ == xdstype.Listeners {
			g.unreadable(proxy, slices.Concat(g.Gateway.Files(tx, proxy), g.Inbound.Files(tx, proxy)), detail)
		}
	})
}

// unreadable handles a proxy's message when it refused a listener. Files of the proxy that the message names count as unreadable from the
// next turn on, until the proxy is gone. mu is held.
func (g *Graph) unreadable(proxy mesh.ProxyID, files []string, detail string) {
	for _, f := range files {
		if strings.Contains(detail, f) && !slices.Contains(g.refusals.files[proxy], f) {
			g.refusals.files[proxy] = append(g.refusals.files[proxy], f)
			g.In.Unreadable.Set(input.File{Proxy: proxy, Path: f}, printable.Text(detail, printable.Long))
		}
	}
}

// reject keeps the refusal of the resource that the proxy sees under a name. mu is held.
func (g *Graph) reject(tx *table.Tx, typ xdstype.Type, name string, shelves []mesh.Shelf, said input.Refusal, proxy mesh.ProxyID) {
	for i := len(shelves) - 1; i >= 0; i-- {
		k := input.Rejected{Proxy: proxy, Type: typ, Key: mesh.ResourceKey{Shelf: shelves[i], Name: name}}
		version, ok := g.Out.version(tx, typ, k.Key)
		if !ok {
			continue
		}
		said.Version = version
		all := g.refusals.by[proxy.Identity()]
		if all == nil {
			all = map[input.Rejected]struct{}{}
			g.refusals.by[proxy.Identity()] = all
		}
		if _, known := all[k]; known || len(all) < maxRefusals {
			all[k] = struct{}{}
			g.In.Rejections.Set(k, said)
		}
		return
	}
}

// forgetOld drops an identity's refusals of resources that have changed since. mu is held.
func (g *Graph) forgetOld(tx *table.Tx, identity string) {
	for k := range g.refusals.by[identity] {
		said, staged := table.Lookup(tx, g.In.Rejections.Table, k)
		if !staged {
			continue // it is not older than this turn
		}
		if version, ok := g.Out.version(tx, k.Type, k.Key); !ok || version != said.Version {
			g.unreject(k)
		}
	}
}

// Retract drops what a proxy refused of a type (a type URL), before it says what it refuses now.
func (g *Graph) Retract(typeURL string, proxy mesh.ProxyID) {
	typ, _ := xdstype.Of(typeURL)
	g.drop(proxy, func(k input.Rejected) bool { return k.Type == typ })
}

// Forget drops what a proxy refused, when the proxy is gone.
func (g *Graph) Forget(proxy mesh.ProxyID) {
	g.drop(proxy, func(input.Rejected) bool { return true })
	g.refusals.mu.Lock()
	defer g.refusals.mu.Unlock()
	for _, f := range g.refusals.files[proxy] {
		g.In.Unreadable.Delete(input.File{Proxy: proxy, Path: f})
	}
	delete(g.refusals.files, proxy)
}

// drop drops the refusals of a proxy for which which returns true.
func (g *Graph) drop(proxy mesh.ProxyID, which func(input.Rejected) bool) {
	g.refusals.mu.Lock()
	defer g.refusals.mu.Unlock()
	for k := range g.refusals.by[proxy.Identity()] {
		if k.Proxy == proxy && which(k) {
			g.unreject(k)
		}
	}
}

// unreject drops one refusal. mu is held.
func (g *Graph) unreject(k input.Rejected) {
	identity, by := k.Proxy.Identity(), g.refusals.by
	delete(by[identity], k)
	if len(by[identity]) == 0 {
		delete(by, identity)
	}
	g.In.Rejections.Delete(k)
}

// refused turns refusals that still hold into problems of the objects that the resource was made from. If several proxies refuse a resource
// in the same words, this is one problem.
func (g *Graph) refused(tx *table.Tx) (out []mesh.Problem) {
	type told struct {
		typ    xdstype.Type
		detail string
		key    mesh.ResourceKey
	}
	known := map[told]bool{}
	for k, v := range g.refusing(tx) {
		this := told{k.Type, v.Detail, k.Key}
		if known[this] {
			continue
		}
		known[this] = true
		for _, ref := range g.blamed(tx, k) {
			out = append(out, refusedProblem(ref, k, v))
		}
	}
	return out
}

// Refusals returns what proxies refuse now, for the statuses of objects. A refusal is an error if the proxy has proved that it is of the
// object's own namespace, else a warning, so that no workload alone can discredit objects of other namespaces. Refusals looks at all
// refusals; any goroutine may call it.
func (g *Graph) Refusals() (out []mesh.Problem) {
	g.Store.Read(func(tx *table.Tx) {
		known := map[mesh.Problem]bool{}
		for k, v := range g.refusing(tx) {
			namespace, _, _ := strings.Cut(k.Proxy.Identity(), "/")
			for _, ref := range g.blamed(tx, k) {
				p := refusedProblem(ref, k, v)
				if namespace == "" || namespace != ref.Namespace {
					p.Severity = mesh.Warning
				}
				if !known[p] {
					known[p] = true
					out = append(out, p)
				}
			}
		}
	})
	return out
}

// refusing iterates over the refusals of resources that proxies are still sent.
func (g *Graph) refusing(tx *table.Tx) iter.Seq2[input.Rejected, input.Refusal] {
	return func(yield func(input.Rejected, input.Refusal) bool) {
		for k, v := range table.All(tx, g.In.Rejections.Table) {
			if version, ok := g.Out.version(tx, k.Type, k.Key); ok && version == v.Version && !yield(k, v) {
				return
			}
		}
	}
}

// blamed returns the objects that a refused resource was made from.
func (g *Graph) blamed(tx *table.Tx, k input.Rejected) []mesh.ObjectRef {
	t, ok := g.Out.holder(tx, k.Type, k.Key)
	if !ok {
		return nil
	}
	return g.culprits(tx, t, k)
}

func refusedProblem(ref mesh.ObjectRef, k input.Rejected, said input.Refusal) mesh.Problem {
	return mesh.Problem{
		Object: ref, Code: code.Refused, Severity: mesh.Error,
		Message: fmt.Sprintf("a proxy refused the %s %s that was made of this: %s", k.Type, k.Key.Name, said.Detail),
	}
}
