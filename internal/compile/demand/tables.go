package demand

import (
	"cmp"
	"strconv"
	"strings"

	"fairway/internal/compile/input"
	"fairway/internal/compile/network"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/registry"
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
	// Singular are those of proxies for which something is made that others of their layer do not have: most proxies are none, and take no
	// row of any feature that looks for its own.
	Singular *table.Table[mesh.ProxyID, Placement]
	Layers   *table.Table[mesh.Layer, LayerInfo]
	Gateways *table.Table[mesh.Layer, struct{}] // the gateway layers among Layers

	choices // what proxies choose by their own word

	in         *input.Tables
	who        *vouch.Tables
	sidecars   *sidecar.Tables
	networks   *network.Tables
	reg        *registry.Tables
	policies   *policy.Tables
	patches    Patches
	telemetry  Held
	extensions Held
	clients    *selects.Index[struct{}] // of DestinationRules
	gateways   *selects.Index[struct{}] // of Gateways
	sources    *table.Table[string, struct{}]
	ranks      *table.Table[string, struct{}]
}

// Held tells which objects of a kind change what a proxy is sent: patches, Telemetries, extensions.
type Held interface {
	// Of names them, in their order; empty: there are none.
	Of(r *table.Reader, p vouch.Proxy) string
}

// Patches tells which patches change what a proxy is sent.
type Patches interface {
	Held
	// Choosing reports whether any patch matches proxies' metadata or versions.
	Choosing(r *table.Reader) bool
	// Chosen names those of a set that Of returned that match the proxy's metadata or version; empty: there are none.
	Chosen(r *table.Reader, set string) string
}

// Reads are the tables of other packages that those of this one are made of.
type Reads struct {
	Input      *input.Tables
	Vouched    *vouch.Tables
	Sidecars   *sidecar.Tables
	Networks   *network.Tables
	Registry   *registry.Tables
	Policies   *policy.Tables
	Telemetry  Held
	Patches    Patches
	Extensions Held
}

// Declare declares the package's tables. variants is how many variants the proxies of one owner get.
func Declare(of Reads, variants int) *Tables {
	t := &Tables{
		in: of.Input, who: of.Vouched, sidecars: of.Sidecars, networks: of.Networks, reg: of.Registry, policies: of.Policies,
		telemetry: of.Telemetry, patches: of.Patches, extensions: of.Extensions, choices: choices{most: variants},
	}
	t.declareSources()
	t.declareRanks()
	t.declareClients()
	t.declarePlacements()
	t.Singular = table.Derive(t.Placements, "placements/singular", cmp.Compare[mesh.ProxyID], table.Same[Placement],
		func(_ *table.Reader, id mesh.ProxyID, p Placement, emit func(mesh.ProxyID, Placement)) {
			if p.singular() {
				emit(id, p)
			}
		})
	t.declareLayers()
	return t
}

func (i LayerInfo) String() string { return named(i.Sidecar) }

func (p Placement) String() string {
	s := p.Layer.String() + "#" + strings.ToLower(p.Interception.String()) + Also(p.Families)
	if p.Outbound != sidecar.AsMesh {
		s += "+" + p.Outbound.String()
	}
	if p.Locality != (mesh.Locality{}) {
		s += " from " + p.Locality.String()
	}
	if p.Network != "" {
		s += " in " + p.Network
	}
	if on := p.Machine.String(); on != "" {
		s += " on " + on
	}
	if p.Cluster != "" {
		s += " of " + strconv.Quote(p.Cluster)
	}
	if p.Ranks != "" {
		s += " ranks=" + string(p.Ranks)
	}
	if p.AutoVIP {
		s += "+vip"
	}
	if p.Policies != "" {
		s += " under" + p.Policies.String()
	}
	s += p.HTTP.String()
	if p.Telemetry != "" {
		s += " tells by " + p.Telemetry
	}
	if p.Extensions != "" {
		s += " " + p.Extensions
	}
	if p.Patches != "" {
		s += " patched for " + p.Patches
	}
	if p.Sources != "" {
		s += " sources=" + string(p.Sources)
	}
	return s
}

func named(k config.Key) string {
	if k == (config.Key{}) {
		return ""
	}
	return k.Namespace + "/" + k.Name
}
