package compile

import (
	"slices"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Lookup returns the row of a resource, in whichever table of its type has it.
func (o Outputs) Lookup(tx *table.Tx, typ xdstype.Type, k mesh.ResourceKey) (*envoy.Encoded, bool) {
	t, ok := o.holder(tx, typ, k)
	if !ok {
		return nil, false
	}
	return table.Lookup(tx, t, k)
}

// Seen returns the row that a proxy sees under a name, on the highest of its shelves that has one; nil: none.
func (o Outputs) Seen(tx *table.Tx, proxy mesh.ProxyID, typ xdstype.Type, name string) *envoy.Encoded {
	t, k := o.seenIn(tx, proxy, typ, name)
	if t == nil {
		return nil
	}
	e, _ := table.Lookup(tx, t, k)
	return e
}

// seenIn returns the table and the key of that row; nil: there is none.
func (o Outputs) seenIn(tx *table.Tx, proxy mesh.ProxyID, typ xdstype.Type, name string) (*Published, mesh.ResourceKey) {
	attachment, _ := table.Lookup(tx, o.Attachments, proxy)
	for _, shelf := range slices.Backward(attachment[typ]) {
		k := mesh.ResourceKey{Shelf: shelf, Name: name}
		if t, ok := o.holder(tx, typ, k); ok {
			return t, k
		}
	}
	return nil, mesh.ResourceKey{}
}

// holder returns the table that holds a resource.
func (o Outputs) holder(tx *table.Tx, typ xdstype.Type, k mesh.ResourceKey) (*Published, bool) {
	for _, t := range o.Resources[typ] {
		if _, ok := table.Lookup(tx, t, k); ok {
			return t, true
		}
	}
	return nil, false
}

func (o Outputs) version(tx *table.Tx, typ xdstype.Type, k mesh.ResourceKey) (uint64, bool) {
	e, ok := o.Lookup(tx, typ, k)
	if !ok {
		return 0, false
	}
	return e.Version, true
}

// CheckAccount returns an error if a proxy calls itself a Pod that cannot be its own. The error may be sent to the proxy.
func (g *Graph) CheckAccount(p mesh.Proxy) (err error) {
	g.Store.Read(func(tx *table.Tx) { err = vouch.CheckAccount(tx, g.In, p) })
	return err
}

// Claims returns the traits that only the proxy itself claims, and whether a registry knows its workload.
func (g *Graph) Claims(p mesh.Proxy) (traits mesh.Traits, known bool) {
	g.Store.Read(func(tx *table.Tx) { traits, known = vouch.Claims(tx, g.In, p) })
	return traits, known
}

// Reduced returns the number of connected proxies with claims that do not count, because their owner has too many variants by rules.
func (g *Graph) Reduced() (n int) {
	g.Store.Read(func(tx *table.Tx) { n = g.Demand.Reduced(tx) })
	return n
}

// Services counts the hosts that registries declare, each once a namespace.
func (g *Graph) Services() (n int) {
	g.Store.Read(func(tx *table.Tx) { n = table.Len(tx, g.Registry.Merged) })
	return n
}

// Unserved counts the hosts that are to have endpoints and have none.
func (g *Graph) Unserved() (n int) {
	g.Store.Read(func(tx *table.Tx) { n = table.Len(tx, g.Registry.Unserved) })
	return n
}

// VirtualServices counts the VirtualServices.
func (g *Graph) VirtualServices() (n int) {
	g.Store.Read(func(tx *table.Tx) { n = table.Len(tx, g.In.VirtualServices) })
	return n
}

// HasPrecedence reports whether a host means this registry's service in the service's namespace.
func (g *Graph) HasPrecedence(tx *table.Tx, k mesh.ServiceKey) bool {
	m, ok := table.Lookup(tx, g.Registry.Merged, registry.HostKey{Host: k.Host, Namespace: k.Namespace})
	return ok && m.Service.Key == k
}

// AutoVIP returns the address allocated to a service; "": there is none.
func (g *Graph) AutoVIP(tx *table.Tx, s *mesh.Service) string {
	vip, _ := table.Lookup(tx, g.Registry.VIPs, registry.KeyOf(s))
	return vip
}

// Object returns the object that a user wrote under a key, with its place; nil: there is none.
func (g *Graph) Object(tx *table.Tx, k config.Key) *config.Object {
	o, ok := table.Lookup(tx, g.In.Of(k.Kind), k)
	if !ok {
		return nil
	}
	return g.placed(tx, o)
}

// Find is Object for a caller outside of a read; false: there is none.
func (g *Graph) Find(k config.Key) (o *config.Object, ok bool) {
	g.Store.Read(func(tx *table.Tx) { o = g.Object(tx, k) })
	return o, o != nil
}

// placed returns an object of an input with the place where it is written.
func (g *Graph) placed(tx *table.Tx, o *config.Object) *config.Object {
	if w, ok := table.Lookup(tx, g.In.Written.Table, o.Key); ok {
		return o.At(w)
	}
	return o
}

// Objects lists all objects that users wrote, by kind, namespace and name.
func (g *Graph) Objects() []*config.Object {
	var out []*config.Object
	g.Store.Read(func(tx *table.Tx) {
		for _, in := range g.In.All() {
			for _, o := range table.Each(tx, in) {
				out = append(out, g.placed(tx, o))
			}
		}
	})
	slices.SortFunc(out, func(a, b *config.Object) int { return config.CompareKey(a.Key, b.Key) })
	return out
}

// Pending reports whether something that came in is not in force yet: a policy that waits for keys. A later turn ends this by itself.
func (g *Graph) Pending() (pending bool) {
	g.Store.Read(func(tx *table.Tx) { pending = table.Len(tx, g.unread) > 0 })
	return pending
}
