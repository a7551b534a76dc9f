package config

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// instead returns the replacement of a field or value that Istio's API marks as deprecated, by its full name.
func instead(name protoreflect.FullName) string {
	const v1alpha3 = "istio.networking.v1alpha3."
	switch name {
	case v1alpha3 + "LoadBalancerSettings.LEAST_CONN":
		return "write LEAST_REQUEST"
	case v1alpha3 + "LoadBalancerSettings.ConsistentHashLB.minimum_ring_size":
		return "write ringHash.minimumRingSize"
	case v1alpha3 + "OutlierDetection.consecutive_errors":
		return "write consecutive5xxErrors or consecutiveGatewayErrors"
	case v1alpha3 + "HTTPRoute.mirror_percent":
		return "write mirrorPercentage.value"
	case v1alpha3 + "CorsPolicy.allow_origin":
		return "write allowOrigins"
	case v1alpha3 + "HTTPFaultInjection.Delay.percent":
		return "write percentage.value"
	case v1alpha3 + "Port.target_port", v1alpha3 + "SidecarPort.target_port":
		return "leave it out"
	}
	return ""
}

// warnDeprecated warns about fields and values that are set and that Istio's API marks as deprecated: they are in force, but a later
// version may not have them. It visits only fields that are set.
func warnDeprecated(c *rule.Check, at report.Path, m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		here := at.Key(f.JSONName())
		if o, ok := f.Options().(*descriptorpb.FieldOptions); ok && o.GetDeprecated() {
			c.Warn(here, code.Deprecated, "the field is deprecated", instead(f.FullName()))
			return true
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					warnDeprecated(c, here.Key(k.String()), v.Message())
					return true
				})
			}
		case f.Enum() != nil && !f.IsList():
			value := f.Enum().Values().ByNumber(v.Enum())
			if o, ok := valueOptions(value); ok && o.GetDeprecated() {
				c.Warn(here, code.Deprecated, fmt.Sprintf("%s is deprecated", value.Name()), instead(value.FullName()))
			}
		case f.Message() == nil || foreign(f.Message()):
		case f.IsList():
			for i := range v.List().Len() {
				warnDeprecated(c, here.At(i), v.List().Get(i).Message())
			}
		default:
			warnDeprecated(c, here, v.Message())
		}
		return true
	})
}

func valueOptions(v protoreflect.EnumValueDescriptor) (*descriptorpb.EnumValueOptions, bool) {
	if v == nil {
		return nil, false
	}
	out, ok := v.Options().(*descriptorpb.EnumValueOptions)
	return out, ok
}

// foreign reports whether a message is not Istio's own: a struct, a duration, a wrapped number.
func foreign(m protoreflect.MessageDescriptor) bool {
	return m.FullName().Parent() == "google.protobuf"
}
