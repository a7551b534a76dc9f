package compile

import (
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// mostMade is how many rows below a resource MadeFrom looks at: a listener may be made from all services.
const mostMade = 2000

// MadeFrom returns the objects that users wrote and a proxy's resource was made from, with their places; none: the proxy sees no such
// resource, or no object shapes it. It walks the recorded reads of the resource's row. more is set if it did not walk all.
func (g *Graph) MadeFrom(tx *table.Tx, proxy mesh.ProxyID, typ xdstype.Type, name string) (out []mesh.ObjectRef, more bool) {
	t, k := g.Out.seenIn(tx, proxy, typ, name)
	if t == nil {
		return nil, false
	}
	return g.writtenFor(tx, t, k, mostMade)
}

// writtenFor returns the objects that users wrote and a row of resources was made from, each once, and looks at most at so many rows; 0: at
// all.
func (g *Graph) writtenFor(tx *table.Tx, t *Published, k mesh.ResourceKey, most int) (out []mesh.ObjectRef, more bool) {
	seen := map[mesh.ObjectRef]bool{}
	origins, more := table.FirstOrigins(tx, t, k, most)
	for _, o := range origins {
		key, is := o.Key.(config.Key)
		if !is {
			continue
		}
		if object := g.Object(tx, key); object != nil && !seen[object.Ref] {
			seen[object.Ref] = true
			out = append(out, object.Ref)
		}
	}
	return out, more
}
