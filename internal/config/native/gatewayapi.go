package native

import gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

// This file has the types of routes of release 1.7 of the Gateway API, as far as those of its Go module that we can import differ: that of
// release 1.7 wants a newer Go than ours. Field names and meanings are the API's.

// HTTPRouteSpec is the specification of an HTTPRoute.
type HTTPRouteSpec struct {
	gatewayv1.CommonRouteSpec `json:",inline"`
	Hostnames                 []gatewayv1.Hostname `json:"hostnames,omitempty"`
	Rules                     []HTTPRouteRule      `json:"rules,omitempty"`
}

// HTTPRouteRule is a rule of an HTTPRoute.
type HTTPRouteRule struct {
	Name               *gatewayv1.SectionName       `json:"name,omitempty"`
	Matches            []gatewayv1.HTTPRouteMatch   `json:"matches,omitempty"`
	Filters            []HTTPRouteFilter            `json:"filters,omitempty"`
	BackendRefs        []HTTPBackendRef             `json:"backendRefs,omitempty"`
	Timeouts           *gatewayv1.HTTPRouteTimeouts `json:"timeouts,omitempty"`
	Retry              *gatewayv1.HTTPRouteRetry    `json:"retry,omitempty"`
	SessionPersistence *SessionPersistence          `json:"sessionPersistence,omitempty"`
}

// HTTPBackendRef is a backend of a rule, with its filters.
type HTTPBackendRef struct {
	gatewayv1.BackendRef `json:",inline"`
	Filters              []HTTPRouteFilter `json:"filters,omitempty"`
}

// HTTPRouteFilter is a filter of a rule or backend.
type HTTPRouteFilter struct {
	Type                   gatewayv1.HTTPRouteFilterType        `json:"type"`
	RequestHeaderModifier  *gatewayv1.HTTPHeaderFilter          `json:"requestHeaderModifier,omitempty"`
	ResponseHeaderModifier *gatewayv1.HTTPHeaderFilter          `json:"responseHeaderModifier,omitempty"`
	RequestMirror          *gatewayv1.HTTPRequestMirrorFilter   `json:"requestMirror,omitempty"`
	RequestRedirect        *gatewayv1.HTTPRequestRedirectFilter `json:"requestRedirect,omitempty"`
	URLRewrite             *gatewayv1.HTTPURLRewriteFilter      `json:"urlRewrite,omitempty"`
	CORS                   *gatewayv1.HTTPCORSFilter            `json:"cors,omitempty"`
	ExternalAuth           *ExternalAuth                        `json:"externalAuth,omitempty"`
	ExtensionRef           *gatewayv1.LocalObjectReference      `json:"extensionRef,omitempty"`
}

// ExternalAuth is a filter of type ExternalAuth (HTTPExternalAuthFilter).
type ExternalAuth struct {
	Protocol    gatewayv1.HTTPRouteExternalAuthProtocol `json:"protocol,omitempty"`
	BackendRef  gatewayv1.BackendObjectReference        `json:"backendRef,omitempty"`
	GRPC        *gatewayv1.GRPCAuthConfig               `json:"grpc,omitempty"`
	HTTP        *gatewayv1.HTTPAuthConfig               `json:"http,omitempty"`
	ForwardBody *ForwardBody                            `json:"forwardBody,omitempty"`
}

// ForwardBody says how much of a request's body an authorizer gets (ForwardBodyConfig).
type ForwardBody struct {
	MaxSize int32 `json:"maxSize,omitempty"`
}

// GRPCRouteSpec is the specification of a GRPCRoute.
type GRPCRouteSpec struct {
	gatewayv1.CommonRouteSpec `json:",inline"`
	Hostnames                 []gatewayv1.Hostname `json:"hostnames,omitempty"`
	Rules                     []GRPCRouteRule      `json:"rules,omitempty"`
}

// GRPCRouteRule is a rule of a GRPCRoute.
type GRPCRouteRule struct {
	Name               *gatewayv1.SectionName      `json:"name,omitempty"`
	Matches            []gatewayv1.GRPCRouteMatch  `json:"matches,omitempty"`
	Filters            []gatewayv1.GRPCRouteFilter `json:"filters,omitempty"`
	BackendRefs        []gatewayv1.GRPCBackendRef  `json:"backendRefs,omitempty"`
	SessionPersistence *SessionPersistence         `json:"sessionPersistence,omitempty"`
}

// SessionPersistence keeps the requests of a client at one endpoint.
type SessionPersistence struct {
	AbsoluteTimeout *gatewayv1.Duration               `json:"absoluteTimeout,omitempty"`
	Type            *gatewayv1.SessionPersistenceType `json:"type,omitempty"`
	Cookie          *SessionCookie                    `json:"cookie,omitempty"`
	Header          *SessionHeader                    `json:"header,omitempty"`
}

// SessionCookie is the cookie of sessions (CookieConfig).
type SessionCookie struct {
	Name         *string                       `json:"name,omitempty"`
	Path         *string                       `json:"path,omitempty"`
	LifetimeType *gatewayv1.CookieLifetimeType `json:"lifetimeType,omitempty"`
}

// SessionHeader is the header of sessions (HeaderConfig).
type SessionHeader struct {
	Name string `json:"name"`
}
