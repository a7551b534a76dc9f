package registry

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/vouch"
	"fairway/internal/table"
)

// OwnCluster is the cluster of a proxy, while some service differs there from other clusters.
var OwnCluster = demand.NewTrait("cluster", demand.Quoted[string]("of"))

// Sources say which cluster each proxy belongs to.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(OwnCluster, func(r *table.Reader, p vouch.Proxy) string {
		if !t.Differs(r, p.Cluster) {
			return ""
		}
		return p.Cluster
	})}
}
