package leads

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/config/filters"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Lead says that a Gateway has routes to a host.
type Lead struct {
	Host    mesh.Host
	Gateway config.Key
}

func compare(a, b Lead) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), config.CompareKey(a.Gateway, b.Gateway))
}

// ByHost is a table of Gateways by host.
type ByHost = table.Table[mesh.Host, table.Rows[Lead, struct{}]]

// Declare indexes the Gateways by the hosts that their routes lead to, while there are some objects. rules are the VirtualServices that are
// made of routes, and wants reports whether a host matters.
func Declare(objects, rules *table.Table[config.Key, *config.Object], name string, wants func(mesh.Host) bool) *ByHost {
	leads := table.KeysWhile(objects, rules, name, compare, func(_ config.Key, o *config.Object) []Lead {
		return slices.DeleteFunc(of(o), func(l Lead) bool { return !wants(l.Host) })
	})
	return table.Index(leads, name+" by host", cmp.Compare[mesh.Host], func(l Lead, _ struct{}) []mesh.Host { return []mesh.Host{l.Host} })
}

// of lists the hosts that a VirtualService leads its Gateway to.
func of(o *config.Object) (out []Lead) {
	spec := config.Spec[*networking.VirtualService](o)
	namespace, made, _ := strings.Cut(spec.GetGateways()[0], "/")
	name, _, _ := strings.Cut(made, "~") // as package gatewayapi names what it makes
	gateway := config.Key{Kind: config.KubernetesGateway, Namespace: namespace, Name: name}
	hosts := filters.Authorizers(o.Made.Routes)
	for _, d := range destinationsOf(spec) {
		hosts = append(hosts, d.GetHost())
	}
	for _, h := range hosts {
		out = append(out, Lead{mesh.Host(strings.ToLower(h)), gateway})
	}
	return out
}

// destinationsOf lists the destinations of a VirtualService.
func destinationsOf(spec *networking.VirtualService) (out []*networking.Destination) {
	for _, h := range spec.GetHttp() {
		for _, d := range h.GetRoute() {
			out = append(out, d.GetDestination())
		}
		for _, m := range h.GetMirrors() {
			out = append(out, m.GetDestination())
		}
	}
	connections := func(list []*networking.RouteDestination) {
		for _, d := range list {
			out = append(out, d.GetDestination())
		}
	}
	for _, r := range spec.GetTls() {
		connections(r.GetRoute())
	}
	for _, r := range spec.GetTcp() {
		connections(r.GetRoute())
	}
	return out
}
