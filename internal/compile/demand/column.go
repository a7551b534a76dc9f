package demand

import (
	"fairway/internal/envoy"
)

// This file compares what a table makes for all proxies of a layer with what it makes for the proxies of a view above.

// Column is a resource as one view makes it: for a layer (Own), and for the layer below a namespace's (Below). A field is nil if there is
// no such resource, or no such layer.
type Column struct{ Own, Below *envoy.Encoded }

// OnShelf reports whether the layer's shelf holds the resource. A resource that is the same below is not repeated.
func (c Column) OnShelf() bool { return c.Own != nil && !envoy.Same(c.Own, c.Below) }

// Above returns what the shelf of a cluster's view holds, right above the layer's shelf. It compares the column of the whole layer with the
// cluster's column. nil: nothing, because the resource below serves the cluster's proxies too.
func Above(layers, clusters Column) *envoy.Encoded {
	seen := clusters.Below // on the shelves of the layer below, where the cluster's lie above too
	if layers.OnShelf() {
		seen = layers.Own
	}
	switch {
	case envoy.Same(clusters.Own, seen):
		return nil
	case clusters.Own == nil:
		return &envoy.Encoded{Err: errNotInCluster, Hides: true}
	}
	return clusters.Own
}
