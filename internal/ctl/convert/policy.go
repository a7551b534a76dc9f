package convert

import (
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// destinationRule converts the TLS settings of a DestinationRule to a BackendTLSPolicy, with Options.Partial alone: a policy is only for
// gateways. The DestinationRule stays in force.
func (c *converter) destinationRule(o *config.Object) {
	spec := config.Spec[*networking.DestinationRule](o)
	tls := spec.GetTrafficPolicy().GetTls()
	if tls.GetMode() != networking.ClientTLSSettings_SIMPLE {
		return
	}
	w := c.work(o)
	const field = "spec.trafficPolicy.tls"
	host := mesh.FullHost(spec.GetHost(), o.Namespace, c.Domain)
	name, namespace, local := host.Local(c.Domain)
	roots := tls.GetCaCertificates()
	switch {
	case !local || namespace != o.Namespace:
		w.note(field, "a BackendTLSPolicy is in the namespace of its Service", "keep the DestinationRule")
		return
	case tls.GetSni() == "" || tls.GetCredentialName() != "" || roots != "" && roots != "system" ||
		tls.GetInsecureSkipVerify().GetValue() || tls.GetCaCrl() != "" || spec.GetWorkloadSelector() != nil:
		w.note(field, "a BackendTLSPolicy verifies a hostname by authorities of the machine or of ConfigMaps, for all gateways",
			"keep the DestinationRule")
		return
	case !c.Partial:
		w.note(field, "as a BackendTLSPolicy it would be for gateways only, not for sidecars",
			"keep the DestinationRule, or write the policy with --partial")
		return
	}
	policy := &gatewayv1.BackendTLSPolicySpec{
		TargetRefs: []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{
			LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Kind: "Service", Name: gatewayv1.ObjectName(name)},
		}},
		Validation: gatewayv1.BackendTLSPolicyValidation{
			Hostname: gatewayv1.PreciseHostname(tls.GetSni()), WellKnownCACertificates: ptr(gatewayv1.WellKnownCACertificatesSystem),
		},
	}
	for _, san := range tls.GetSubjectAltNames() {
		policy.Validation.SubjectAltNames = append(policy.Validation.SubjectAltNames, gatewayv1.SubjectAltName{
			Type: gatewayv1.HostnameSubjectAltNameType, Hostname: gatewayv1.Hostname(san),
		})
	}
	w.add(config.BackendTLSPolicy, w.named(config.BackendTLSPolicy, o.Namespace, o.Name), policy, true)
	w.note(field, "the DestinationRule has precedence over the BackendTLSPolicy", "delete its tls once no sidecar calls the host")
	c.finish(w)
}
