package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// mostAddresses is how many addresses the API lets a status have.
const mostAddresses = 16

// reach adds the addresses of a Gateway to its status, and their faults to its conditions.
func (j judge) reach(r *table.Reader, o *config.Object, s *verdict.Status) {
	spec := native[gatewayv1.GatewaySpec](o)
	reason, wrong := gatewayv1.GatewayReasonUnsupportedAddress, unsupportedAddress(spec)
	if _, is, _ := j.parameters.Of(r, o); is != "" {
		reason, wrong = gatewayv1.GatewayReasonInvalidParameters, is
	}
	if wrong != "" {
		s.Set(verdict.Condition(gatewayv1.GatewayConditionAccepted, false, reason, wrong))
		s.Set(verdict.Condition(gatewayv1.GatewayConditionProgrammed, false, gatewayv1.GatewayReasonInvalid, wrong))
		return
	}
	d, deployed := table.Get(r, j.deployments, o.Key)
	if !deployed {
		return // it is no cluster's
	}
	s.Addressed = true
	unreached := func(reason gatewayv1.GatewayConditionReason, message string) {
		if is := meta.FindStatusCondition(s.Conditions, string(gatewayv1.GatewayConditionProgrammed)); is == nil ||
			is.Reason != string(gatewayv1.GatewayReasonInvalid) {
			s.Set(verdict.Condition(gatewayv1.GatewayConditionProgrammed, false, reason, message))
		}
	}
	if d.Unwanted {
		for _, a := range spec.Addresses {
			host := j.serviceOf(o, a.Value)
			found := j.addresses(r, host, false)
			if len(found) == 0 {
				unreached(gatewayv1.GatewayReasonAddressNotUsable, fmt.Sprintf("there is no Service %s with an address", host))
			}
			s.Addresses = append(s.Addresses, found...)
		}
	} else {
		host := mesh.FullHost(d.Name, o.Namespace, j.in.DomainSuffix())
		s.Addresses = j.addresses(r, host, d.Type == corev1.ServiceTypeLoadBalancer)
		asked := slices.ContainsFunc(s.Addresses, func(a gatewayv1.GatewayStatusAddress) bool { return a.Value == d.Address })
		taken, refused := table.Get(r, j.taken, o.Key)
		switch {
		case refused:
			unreached(gatewayv1.GatewayReasonInvalid, taken)
		case d.Address != "" && !asked:
			s.Addresses = nil
			unreached(gatewayv1.GatewayReasonAddressNotUsable,
				"the load balancer of Service "+d.Name+" does not have the address "+d.Address)
		case len(s.Addresses) == 0:
			unreached(gatewayv1.GatewayReasonAddressNotAssigned, "Service "+d.Name+" has no address yet")
		}
	}
	s.Addresses = s.Addresses[:min(len(s.Addresses), mostAddresses)]
}

// unsupportedAddress says which address of a Gateway has a type that is not known; empty: none.
func unsupportedAddress(spec *gatewayv1.GatewaySpec) string {
	for i, a := range spec.Addresses {
		switch value(a.Type, gatewayv1.IPAddressType) {
		case gatewayv1.IPAddressType, gatewayv1.HostnameAddressType:
		default:
			return fmt.Sprintf("%s is of type %q; want IPAddress or Hostname", index("spec.addresses", i), *a.Type)
		}
	}
	return ""
}

// serviceOf returns the host of the Service that an address names. As in Istio, the address is a host, or the name of a Service of the same
// namespace.
func (j judge) serviceOf(o *config.Object, name string) mesh.Host {
	if strings.Contains(name, ".") {
		return mesh.Host(strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return mesh.FullHost(name, o.Namespace, j.in.DomainSuffix())
}

// addresses returns where a Service of the cluster is reached: the addresses of its load balancer, or its own, unless it is balanced: then
// it is to have one.
func (j judge) addresses(r *table.Reader, host mesh.Host, balanced bool) (out []gatewayv1.GatewayStatusAddress) {
	name, namespace, ok := host.Local(j.in.DomainSuffix())
	if !ok {
		return nil
	}
	s, ok := table.Get(r, j.services, mesh.ServiceKey{Host: host, Namespace: namespace, Registry: j.in.OwnRegistry(), Object: name})
	if !ok {
		return nil
	}
	all := s.Outside
	if len(all) == 0 && !balanced {
		all = s.Addresses
	}
	for _, a := range all {
		typ := gatewayv1.HostnameAddressType
		if _, err := netip.ParseAddr(a); err == nil {
			typ = gatewayv1.IPAddressType
		}
		out = append(out, gatewayv1.GatewayStatusAddress{Type: &typ, Value: a})
	}
	return out
}

// declareSets counts the ListenerSets of each Gateway that are accepted.
func (j *judge) declareSets(statuses *table.Table[config.Key, *verdict.Status]) {
	accepted := table.Derive(statuses, "gatewayapi/accepted listenersets", config.CompareKey, func(a, b config.Key) bool { return a == b },
		func(r *table.Reader, k config.Key, s *verdict.Status, emit func(config.Key, config.Key)) {
			set, there := table.Get(r, j.in.ListenerSets, k)
			if !there || !meta.IsStatusConditionTrue(s.Conditions, string(gatewayv1.ListenerSetConditionAccepted)) {
				return
			}
			if gateway, ok, _ := j.parent(r, set); ok {
				emit(k, gateway)
			}
		})
	j.sets = table.Group(accepted, "gatewayapi/accepted listenersets by gateway", config.CompareKey,
		func(_ config.Key, gateway config.Key) []config.Key { return []config.Key{gateway} })
}
