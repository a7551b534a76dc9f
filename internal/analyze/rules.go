package analyze

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// registries notes networks that should have the endpoints of an unknown cluster.
func (w *world) registries() {
	if w.remotes == nil {
		return
	}
	for _, o := range w.of(config.MeshNetworks) {
		networks := config.Spec[*meshconfig.MeshNetworks](o).GetNetworks()
		for _, name := range slices.Sorted(maps.Keys(networks)) {
			for i, e := range networks[name].GetEndpoints() {
				from := e.GetFromRegistry()
				if from == "" || from == cluster || w.remotes[from] {
					continue
				}
				known := append([]string{cluster}, slices.Sorted(maps.Keys(w.remotes))...)
				w.note(o.Problem(fmt.Sprintf("networks.%s.endpoints[%d].fromRegistry", name, i), code.UnknownRegistry, mesh.Error,
					fmt.Sprintf("no cluster %q is known (there are %s): the network has no endpoints of it",
						from, strings.Join(known, ", ")),
					"name a cluster as its Secret with the label istio/multiCluster does, or the control plane's own --clusterID"))
			}
		}
	}
}

// providers notes Telemetries that ask for reports when neither they nor the mesh name a provider.
func (w *world) providers() {
	defaults := w.meshConfig().GetDefaultProviders()
	type section struct {
		name     string
		ofMesh   int
		entries  func(*telemetry.Telemetry) []*telemetry.ProviderRef // of all its entries
		unnamed  func(*telemetry.Telemetry) int                      // the first entry that is enabled and names no provider; -1: none
		whatElse string
	}
	sections := []section{
		{"accessLogging", len(defaults.GetAccessLogging()), func(t *telemetry.Telemetry) (out []*telemetry.ProviderRef) {
			for _, e := range t.GetAccessLogging() {
				out = append(out, e.GetProviders()...)
			}
			return out
		}, func(t *telemetry.Telemetry) int {
			return slices.IndexFunc(t.GetAccessLogging(), func(e *telemetry.AccessLogging) bool {
				return len(e.GetProviders()) == 0 && !e.GetDisabled().GetValue()
			})
		}, "nothing is logged"},
		{"tracing", len(defaults.GetTracing()), func(t *telemetry.Telemetry) (out []*telemetry.ProviderRef) {
			for _, e := range t.GetTracing() {
				out = append(out, e.GetProviders()...)
			}
			return out
		}, func(t *telemetry.Telemetry) int {
			return slices.IndexFunc(t.GetTracing(), func(e *telemetry.Tracing) bool {
				return len(e.GetProviders()) == 0 && !e.GetDisableSpanReporting().GetValue()
			})
		}, "no spans are sent"},
	}
	all := w.of(config.Telemetry)
	for _, o := range all {
		spec := config.Spec[*telemetry.Telemetry](o)
		for _, s := range sections {
			at := s.unnamed(spec)
			if at < 0 || s.ofMesh > 0 || len(s.entries(spec)) > 0 {
				continue
			}
			inherits := slices.ContainsFunc(all, func(other *config.Object) bool { // from those for all of the mesh or of the namespace
				t := config.Spec[*telemetry.Telemetry](other)
				return (other.Namespace == w.root || other.Namespace == o.Namespace) && len(t.GetSelector().GetMatchLabels()) == 0 &&
					len(s.entries(t)) > 0
			})
			if !inherits {
				w.note(o.Problem(fmt.Sprintf("spec.%s[%d].providers", s.name, at), code.NoProvider, mesh.Warning,
					"no provider is named, neither here nor by defaultProviders of the mesh configuration: "+s.whatElse,
					"name a provider of extensionProviders"))
			}
		}
	}
}

// meshOnly notes VirtualServices for sidecars only if gateways send requests to their hosts: gateways ignore these routes.
func (w *world) meshOnly() {
	type sender struct{ rule, gateway string }
	senders := map[mesh.Host]sender{}
	rules := w.of(config.VirtualService)
	for _, o := range rules {
		spec := config.Spec[*networking.VirtualService](o)
		gateways := slices.DeleteFunc(slices.Clone(spec.GetGateways()), func(g string) bool { return g == "mesh" })
		if len(gateways) == 0 {
			continue
		}
		for _, http := range spec.GetHttp() {
			for _, d := range http.GetRoute() {
				host := mesh.FullHost(d.GetDestination().GetHost(), o.Namespace, domain)
				if _, has := senders[host]; !has && d.GetDestination().GetSubset() == "" {
					senders[host] = sender{o.Namespace + "/" + o.Name, gateways[0]}
				}
			}
		}
	}
	for _, o := range rules {
		spec := config.Spec[*networking.VirtualService](o)
		if slices.ContainsFunc(spec.GetGateways(), func(g string) bool { return g != "mesh" }) || plain(spec) {
			continue
		}
		for i, h := range spec.GetHosts() {
			by, has := senders[mesh.FullHost(h, o.Namespace, domain)]
			if !has {
				continue
			}
			w.note(o.Problem(fmt.Sprintf("spec.hosts[%d]", i), code.SidecarsOnly, mesh.Warning,
				fmt.Sprintf("the routes hold for sidecars alone; Gateway %s sends requests to the host too, by VirtualService %s, and by "+
					"no "+
					"route of this one", by.gateway, by.rule),
				"nothing, if that is meant; else write the routes there too, or name the gateway in spec.gateways"))
			break
		}
	}
}

// plain reports whether a VirtualService only sends requests to one destination, so that it makes no difference without it.
func plain(spec *networking.VirtualService) bool {
	for _, http := range spec.GetHttp() {
		if len(http.GetRoute()) != 1 || len(http.GetMatch()) > 0 || http.GetRoute()[0].GetDestination().GetSubset() != "" ||
			http.GetFault() != nil || http.GetRewrite() != nil || http.GetRedirect() != nil || http.GetDirectResponse() != nil ||
			http.GetTimeout() != nil || http.GetRetries() != nil || http.GetHeaders() != nil {
			return false
		}
	}
	return true
}

// unexported notes objects that are exported only to namespaces without a known workload.
func (w *world) unexported() {
	for _, o := range w.objects {
		of, ok := o.Spec.(interface{ GetExportTo() []string })
		if !ok || len(of.GetExportTo()) == 0 {
			continue
		}
		seen := slices.ContainsFunc(of.GetExportTo(), func(n string) bool { return n == "*" || n == "." || w.peopled[n] })
		if !seen {
			w.note(o.Problem("spec.exportTo", code.NotExported, mesh.Info,
				"no workload is known in a namespace that it is exported to ("+strings.Join(of.GetExportTo(), ", ")+
					"): it has no effect",
				"name a namespace that has workloads, . for its own or * for all"))
		}
	}
}
