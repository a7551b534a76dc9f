package cluster

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareMismatches notes tls settings of DestinationRules that make clients speak what the servers' PeerAuthentications refuse. Only
// objects with such settings have a row.
func declareMismatches(
	rules *table.Table[config.Key, *config.Object],
	reg *registry.Tables,
	peers *peer.Tables,
	resolve func(name, namespace string) mesh.Host,
) {
	sets := func(_ config.Key, o *config.Object) bool {
		return len(tlsOf(config.Spec[*networking.DestinationRule](o))) > 0
	}
	table.DeriveWhere(rules, sets, "rule checks/mutual", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			settings := tlsOf(config.Spec[*networking.DestinationRule](o))
			c := check{r: r, reg: reg, object: o}
			c.service = c.find(resolve(config.Spec[*networking.DestinationRule](o).GetHost(), o.Namespace))
			if c.service == nil || c.service.External {
				return
			}
			rows, _ := table.Get(r, reg.EndpointsByHost, registry.KeyOf(c.service))
			for _, s := range settings {
				if why := s.mismatch(r, peers, c.service, rows); why != "" {
					c.note(mesh.Error, code.MTLSMismatch, s.field, why, "write the mode that the PeerAuthentication takes, or change "+
						"that one's; without tls clients find out by themselves which of the two a server takes")
				}
			}
		})
}

// tlsSetting is one tls setting of a DestinationRule.
type tlsSetting struct {
	field  string
	mode   networking.ClientTLSSettings_TLSmode
	port   uint32   // the port it is for; 0: all but others
	others []uint32 // have settings of their own
	labels mesh.Labels
}

// tlsOf lists the tls settings of a rule and of its subsets, which have labels.
func tlsOf(spec *networking.DestinationRule) (out []tlsSetting) {
	add := func(field string, t *networking.TrafficPolicy, labels mesh.Labels) {
		var own []uint32
		for i, p := range t.GetPortLevelSettings() {
			own = append(own, p.GetPort().GetNumber())
			if p.GetTls() != nil {
				at := fmt.Sprintf("%s.portLevelSettings[%d].tls.mode", field, i)
				out = append(out, tlsSetting{field: at, mode: p.GetTls().GetMode(), port: p.GetPort().GetNumber(), labels: labels})
			}
		}
		if t.GetTls() != nil {
			out = append(out, tlsSetting{field: field + ".tls.mode", mode: t.GetTls().GetMode(), others: own, labels: labels})
		}
	}
	add("spec.trafficPolicy", spec.GetTrafficPolicy(), "")
	for i, s := range spec.GetSubsets() {
		add(fmt.Sprintf("spec.subsets[%d].trafficPolicy", i), s.GetTrafficPolicy(), mesh.MakeLabels(s.GetLabels()))
	}
	return out
}

// holds reports whether the setting is for a port of the service.
func (s tlsSetting) holds(p mesh.Port) bool {
	return s.port == p.Number || s.port == 0 && !slices.Contains(s.others, p.Number)
}

// mismatch returns a port and endpoints that do not take what clients speak; empty: all do. A policy closes nothing on servers that have no
// proxy to enforce it.
func (s tlsSetting) mismatch(
	r *table.Reader, peers *peer.Tables, service *mesh.Service, endpoints table.Rows[mesh.EndpointKey, mesh.Endpoint],
) string {
	mutual := s.mode == networking.ClientTLSSettings_ISTIO_MUTUAL
	asked := map[mesh.Labels]peer.Policy{} // of endpoints with the same labels
	for _, e := range endpoints.All() {
		if !e.Labels.SelectedBy(s.labels) {
			continue
		}
		policy, known := asked[e.Labels]
		if !known {
			policy = peers.Server(r, service.Key.Namespace, e.Labels)
			asked[e.Labels] = policy
		}
		for _, p := range service.Ports {
			if !s.holds(p) || !e.Serves(p) {
				continue
			}
			takes := policy.At(e.On(p))
			switch {
			case mutual && takes == mesh.Disabled:
				return fmt.Sprintf("clients speak mutual TLS of the mesh to port %d of %s, and a PeerAuthentication has port %d of "+
					"workloads with the labels %s take plaintext alone (DISABLE): connections fail",
					p.Number, service.Key.Host, e.On(p), e.Labels)
			case !mutual && takes == mesh.Strict && e.MTLS:
				return fmt.Sprintf("clients speak no mutual TLS of the mesh (%v) to port %d of %s, and a PeerAuthentication has port %d "+
					"of workloads with the labels %s take nothing else (STRICT): connections are closed",
					s.mode, p.Number, service.Key.Host, e.On(p), e.Labels)
			}
		}
	}
	return ""
}
