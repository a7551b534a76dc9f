package cluster

import (
	"cmp"
	"math"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file tells networks apart. For the proxies of one network, gateways replace the endpoints of another network that has gateways.
// Assignments that differ from the layer's are on a shelf above it, below that of the localities.

// Reach is from where endpoints are reached. The zero Reach reaches all as they are.
type Reach struct {
	Network string
	Plain   bool // without mutual TLS, and so no network but the own one and those without gateways
}

func compareReach(a, b Reach) int {
	return cmp.Or(cmp.Compare(a.Network, b.Network), compareBool(a.Plain, b.Plain))
}

func (c Reach) String() string {
	if c.Network == "" {
		return ""
	}
	if c.Plain {
		return "in " + strconv.Quote(c.Network) + " in the clear"
	}
	return "in " + strconv.Quote(c.Network)
}

// declareEntered holds the views that reach some other network through gateways. While there is no such network, no target has a row here.
func declareEntered(views demand.Views, networks *network.Tables) *table.Table[demand.View, struct{}] {
	return table.Derive(views.Table, views.Name()+"/entered", demand.CompareView, table.Same[struct{}],
		func(r *table.Reader, v demand.View, _ struct{}, emit func(demand.View, struct{})) {
			if networks.Others(r, reach.Of(v).Network) {
				emit(v, struct{}{})
			}
		}).SkipInOrigins()
}

// byNetwork makes the load assignments that differ for the proxies of a network.
func (b builder) byNetwork(views demand.Views) loads[struct{}, reached] {
	return loads[struct{}, reached]{
		Refinement: demand.Refinement[struct{}, Key, *Target]{
			Views: declareEntered(views, b.networks), Compare: CompareKey,
			Of: func(k Key, t *Target) (mesh.Layer, demand.Which) {
				if !t.ownsLoad() || t.ownMachine(k) {
					return k.Layer, demand.None
				}
				return k.Layer, demand.All
			},
		},
		Want: func(v demand.View, _ struct{}, k Key, t *Target) (reached, bool) {
			return t.reached(t.selection(k.Cluster), viewerOf(v)), true
		},
		Order: compareReached, Name: reached.name, Build: b.differing,
	}
}

// speaks is how a cluster speaks TLS, as far as gateways of other networks ask for it.
type speaks uint8

const (
	asEndpointsSay speaks = iota // mutual TLS to those endpoints that take it
	always                       // mutual TLS
	otherwise                    // in the clear, or TLS that no gateway of a network can read
)

func (t *Target) speaks() speaks {
	switch {
	case t.Policy.TLS == nil:
		return asEndpointsSay
	case t.Policy.TLS.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return always
	}
	return otherwise
}

// across replaces the endpoints of other networks by gateways; false: there is nothing to replace or leave out.
func (b builder) across(r *table.Reader, n reached, all []member) ([]member, bool) {
	if n.Network == "" || !b.networks.Others(r, n.Network) {
		return all, false
	}
	if n.TLS == asEndpointsSay && !b.in.EnableAutoMTLS(r) {
		n.TLS = otherwise
	}
	j := journey{to: map[entrance]uint64{}, ways: map[[2]string][]network.Gateway{}}
	find := b.networks.Finder(r)
	var near []member
	for _, m := range all {
		in := find.Of(m.of, m.Endpoint)
		if in == "" || in == n.Network {
			near = append(near, m)
			continue
		}
		way := j.way(in, m.of.Registry, func() []network.Gateway { return b.networks.Into(r, in, m.of.Registry) })
		switch {
		case n.Cluster.BySNI: // who comes through a gateway is not sent through another one
		case len(way) == 0:
			near = append(near, m)
			continue
		case n.secure(m):
			j.take(m, way)
		}
		j.some = true
	}
	if !j.some {
		return all, false
	}
	return j.over(near, n.Port), true
}

// secure reports whether a member of another network is called over mutual TLS. A member that does not take it is not called, because the
// gateway would not know where to pass the connection.
func (n reached) secure(m member) bool {
	return !n.Plain && m.Health == mesh.Healthy && (n.TLS == always || n.TLS == asEndpointsSay && m.MTLS)
}

// entrance is a gateway with the place of the endpoints behind it, which is what counts as near or far.
type entrance struct {
	network.Gateway
	mesh.Locality
}

// journey gathers the endpoints of other networks.
type journey struct {
	some bool
	ways map[[2]string][]network.Gateway
	to   map[entrance]uint64 // weight of the endpoints behind it, times finest
}

// finest is how finely the weight of an endpoint is divided among gateways: up to ten of one network get equal parts.
const finest = 2520

func (j *journey) way(in, registry string, find func() []network.Gateway) []network.Gateway {
	key := [2]string{in, registry}
	way, known := j.ways[key]
	if !known {
		way = find()
		j.ways[key] = way
	}
	return way
}

func (j *journey) take(m member, way []network.Gateway) {
	for _, g := range way {
		g.Registry = "" // of several clusters' endpoints one address is one entry
		j.to[entrance{g, m.Locality}] += uint64(max(m.Weight, 1)) * finest / uint64(len(way))
	}
}

// over puts the gateways beside the endpoints that are reached as they are, their weights on one scale, which is as small
// as it can be.
func (j *journey) over(near []member, port mesh.Port) []member {
	scale := uint64(finest)
	for _, weight := range j.to {
		scale = divisor(scale, weight)
	}
	for i := range near {
		near[i].Weight = narrow(uint64(max(near[i].Weight, 1)) * (finest / scale))
	}
	for at, weight := range j.to {
		near = append(near, member{Endpoint: mesh.Endpoint{
			Address: at.Address, Ports: mesh.PortOnly(port, at.Port), Locality: at.Locality, Network: at.Network,
			Weight: narrow(weight / scale), MTLS: true,
		}})
	}
	return near
}

func narrow(weight uint64) uint32 { return uint32(min(max(weight, 1), math.MaxUint32)) }

func divisor(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
