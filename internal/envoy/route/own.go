package route

import (
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	networking "istio.io/api/networking/v1alpha3"

	users "fairway/internal/config"
	"fairway/internal/envoy/route/own"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// own builds the filters that a route has of its own, the same for all of its matches; nil: there are none.
func (b *Builder) own(rule Rule, field string, more users.MadeRoute) *filterchainv3.FilterChainConfigPerRoute {
	var clusters []string
	for i, a := range more.Authorizers {
		at := index(field+".authorizers", i)
		t := b.target(rule, at, &networking.Destination{Host: a.Host, Port: &networking.PortSelector{Number: a.Port}})
		cluster := t.Cluster.String()
		if t.Under != "" {
			b.problem(mesh.Error, code.NotUnder, at+".host",
				"an authorizer is asked for no name that could be resolved: requests that "+string(t.Under)+
					" would authorize are answered 403", "name a host of your own")
			cluster = nowhere
		}
		clusters = append(clusters, cluster)
	}
	return own.Filters(more.Authorizers, clusters, more.Session)
}

// nowhere is a cluster that does not exist.
const nowhere = "~"
