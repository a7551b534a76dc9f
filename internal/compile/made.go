package compile

import (
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// MadeFrom returns the objects that users wrote and a proxy's resource was made from, with their places; none: the proxy sees no such
// resource, or no object shapes it. It walks the recorded reads of the resource's row.
func (g *Graph) MadeFrom(tx *table.Tx, proxy mesh.ProxyID, typ xdstype.Type, name string) []mesh.ObjectRef {
	t, k := g.Out.seenIn(tx, proxy, typ, name)
	if t == nil {
		return nil
	}
	return g.writtenFor(tx, t, k)
}

// writtenFor returns the objects that users wrote and a row of resources was made from, each once.
func (g *Graph) writtenFor(tx *table.Tx, t *Published, k mesh.ResourceKey) (out []mesh.ObjectRef) {
	for _, o := range table.Origins(tx, t, k, nil) {
		key, is := o.Key.(config.Key)
		if !is {
			continue
		}
		if object := g.Object(tx, key); object != nil && !slices.Contains(out, object.Ref) {
			out = append(out, object.Ref)
		}
	}
	return out
}
