package cluster

import (
	"cmp"
	"strconv"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/inbound"
	"fairway/internal/compile/network"
	"fairway/internal/compile/vouch"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// This file tells proxies where their workloads' own peers are. Envoy compares the zones of these with the zones of a cluster, and keeps
// as many requests in its own zone as that one has its share of (ZoneAwareLoadBalancerSetting in destination_rule.proto).

// peers are workloads of one service, in one region, that were made from one template. With a zero selection there are none.
type peers struct {
	Namespace string
	Region    string
	selection
}

func comparePeers(a, b peers) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Region, b.Region), compareSelection(a.selection, b.selection))
}

// shelf returns the shelf of their load assignment. Regions and labels are claims of proxies: they are quoted, so that two shelves never
// have one name.
func (p peers) shelf() mesh.Shelf {
	part, port := "peers", strconv.FormatUint(uint64(p.Port.Number), 10)
	for _, word := range []string{p.Region, p.Service.String(), p.Port.Name, port, string(p.Labels)} {
		part += " " + strconv.Quote(word)
	}
	return mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: p.Namespace}, Part: part}
}

// ofTemplate returns the names of the labels that identify workloads of one template.
func ofTemplate() []string { return []string{"pod-template-hash", "service.istio.io/workload-name"} }

// declarePeers makes the load assignments of peers, for the proxies that ask for them.
func declarePeers(who *vouch.Tables, proxies *demand.Tables, workloads *inbound.Tables, b builder) demand.Part {
	const name = "peers"
	of := table.Derive(proxies.Singular, name+"/of", cmp.Compare[mesh.ProxyID], table.Same[peers],
		func(r *table.Reader, id mesh.ProxyID, at demand.Placement, emit func(mesh.ProxyID, peers)) {
			if !demand.Discovers.At(at) {
				return
			}
			if p, ok := table.Get(r, who.Proxies, id); ok {
				emit(id, peersOf(r, workloads, p, at))
			}
		})
	alike := table.Keys(of, name+"/alike", comparePeers, func(_ mesh.ProxyID, p peers) []peers { return []peers{p} }).SkipInOrigins()
	loads := table.Derive(alike, name+"/loads", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, p peers, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			load := endpoint.Load{Cluster: mesh.PeersCluster, Port: p.Port}
			if p.Service != (mesh.ServiceKey{}) {
				for _, e := range b.reg.EndpointsOf(r, p.Service, p.Port) { // clients do not connect to them, so none is withheld
					if e.Locality.Region == p.Region && p.takes(e) {
						load.Endpoints = append(load.Endpoints, e)
					}
				}
			}
			emit(resource(p.shelf(), mesh.PeersCluster), envoy.Encode(load.Build()))
		})
	return demand.Part{Type: xdstype.Loads, Tables: []*demand.Published{loads},
		Shelves: func(r *table.Reader, id mesh.ProxyID, _ demand.Placement) []mesh.Shelf {
			if p, ok := table.Get(r, of, id); ok {
				return []mesh.Shelf{p.shelf()}
			}
			return nil
		}}
}

// peersOf returns the peers of a proxy's workload, including the workload itself.
func peersOf(r *table.Reader, workloads *inbound.Tables, p vouch.Proxy, at demand.Placement) peers {
	out := peers{Namespace: p.Namespace, Region: network.OwnLocality.At(at).Region}
	service, port, ok := workloads.Serves(r, p)
	if !ok {
		return out
	}
	alike := map[string]string{}
	for _, name := range ofTemplate() {
		if value, has := p.Labels.Get(name); has {
			alike[name] = value
		}
	}
	out.selection = selection{
		Cluster: mesh.ClusterKey{Host: service.Key.Host, Port: port.Number},
		Service: service.Key, Port: port, Labels: mesh.MakeLabels(alike),
	}
	return out
}
