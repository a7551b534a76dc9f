package rule

import (
	"strconv"

	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
)

// Targets checks what a policy is attached to by targetRef and targetRefs (type/v1beta1/selector.proto, PolicyTargetReference): Gateways
// of the Gateway API and their classes, Services and ServiceEntries. That they exclude each other and a selector the schemas say.
func (c *Check) Targets(at *report.Path, one *typev1beta1.PolicyTargetReference, list []*typev1beta1.PolicyTargetReference) {
	if one != nil {
		here := at.Key("targetRef")
		c.target(&here, one)
	}
	for i, ref := range list {
		here := at.Of("targetRefs", i)
		c.target(&here, ref)
	}
}

func (c *Check) target(at *report.Path, ref *typev1beta1.PolicyTargetReference) {
	if ref.GetName() == "" {
		c.Fail(at.Key("name"), code.Missing, "the target has no name", "name it")
	}
	if ref.GetNamespace() != "" {
		c.Fail(at.Key("namespace"), code.NotSupported, "a policy is attached in its own namespace alone", "leave namespace out")
	}
	group := ref.GetGroup()
	if group == "core" {
		group = ""
	}
	switch group + "/" + ref.GetKind() {
	case "gateway.networking.k8s.io/Gateway", "gateway.networking.k8s.io/GatewayClass", "/Service", "networking.istio.io/ServiceEntry":
	default:
		c.Fail(at.Key("kind"), code.UnknownValue,
			"a policy cannot be attached to "+strconv.Quote(ref.GetKind())+" of group "+strconv.Quote(ref.GetGroup()),
			"write Gateway or GatewayClass of gateway.networking.k8s.io, Service of no group, or ServiceEntry of networking.istio.io")
	}
}
