package parents

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
)

// Takes reports whether a listener takes routes of a kind.
func Takes(l *gatewayv1.Listener, kind config.Kind) bool {
	kinds, _ := Supported(l)
	return slices.Contains(kinds, kind)
}

// Supported lists the kinds of routes that a listener takes: those that its protocol is for, and that AllowedRoutes.kinds lists if it does.
// others: it lists kinds that the listener cannot take.
func Supported(l *gatewayv1.Listener) (kinds []config.Kind, others bool) {
	all := kindsOf(l)
	if l.AllowedRoutes == nil || len(l.AllowedRoutes.Kinds) == 0 {
		return all, false
	}
	for _, k := range l.AllowedRoutes.Kinds {
		kind, known := config.KindOf(string(value(k.Group, gatewayv1.GroupName)), string(k.Kind))
		if !known || !slices.Contains(all, kind) {
			others = true
		} else if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, others
}

// kindsOf lists the kinds of route that a listener's protocol is for.
func kindsOf(l *gatewayv1.Listener) []config.Kind {
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return []config.Kind{config.HTTPRoute, config.GRPCRoute}
	case gatewayv1.TLSProtocolType:
		if l.TLS != nil && value(l.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModeTerminate {
			return []config.Kind{config.TLSRoute, config.TCPRoute}
		}
		return []config.Kind{config.TLSRoute}
	case gatewayv1.TCPProtocolType:
		return []config.Kind{config.TCPRoute}
	case gatewayv1.UDPProtocolType:
		return []config.Kind{config.UDPRoute}
	}
	return nil
}

// value returns what a pointer points to; nil: the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
