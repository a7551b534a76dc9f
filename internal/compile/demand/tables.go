package demand

import (
	"cmp"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the derived tables of this package.
type Tables struct {
	Placements *table.Table[mesh.ProxyID, Placement]
	// Singular holds the placements of proxies with resources of their own, which others of their layer do not get. Most proxies have none,
	// and take no row in a feature that looks for its own proxies.
	Singular *table.Table[mesh.ProxyID, Placement]
	Layers   *table.Table[mesh.Layer, LayerInfo]
	Gateways *table.Table[mesh.Layer, struct{}] // the gateway layers among Layers

	choices // what proxies choose by their own claims

	in         *input.Tables
	who        *vouch.Tables
	sidecars   *sidecar.Tables
	sources    []Source
	notes      []func(*table.Reader, vouch.Proxy)
	clients    *selects.Index[struct{}]       // of DestinationRules
	gateways   *selects.Index[struct{}]       // of Gateways
	ruleLabels *table.Table[string, struct{}] // labels that VirtualServices ask for
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input    *input.Tables
	Vouched  *vouch.Tables
	Sidecars *sidecar.Tables
	Sources  []Source // of the traits of other rooms
	// Notes are called for each proxy, to note problems with it.
	Notes []func(*table.Reader, vouch.Proxy)
}

// Declare declares the package's tables. variants is how many variants the proxies of one owner get.
func Declare(of Reads, variants int) *Tables {
	t := &Tables{in: of.Input, who: of.Vouched, sidecars: of.Sidecars, notes: of.Notes, choices: choices{most: variants}}
	t.sources = append(t.own(), of.Sources...)
	t.declareSources()
	t.declareClients()
	t.declarePlacements()
	t.Singular = table.Derive(t.Placements, "placements/singular", cmp.Compare[mesh.ProxyID], table.Same[Placement],
		func(_ *table.Reader, id mesh.ProxyID, p Placement, emit func(mesh.ProxyID, Placement)) {
			if t.singular(p) {
				emit(id, p)
			}
		})
	t.declareLayers()
	return t
}

func (i LayerInfo) String() string { return named(i.Sidecar) }

func named(k config.Key) string {
	if k == (config.Key{}) {
		return ""
	}
	return k.Namespace + "/" + k.Name
}
