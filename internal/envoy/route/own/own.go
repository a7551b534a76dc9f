// Package own builds the filters that a route has of its own (config/filters): they ask authorizers, and keep the requests of a session at
// one endpoint. Filters is the place to start reading. The package is pure.
//
// It must not know rules, or how clusters are found.
package own

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/config/filters"
	"fairway/internal/envoy"
	"fairway/internal/envoy/authorization"
)

// Filter is the name under which HTTP connection managers list the filter that runs a route's own filters (envoy.WantsFilters).
const Filter = "envoy.filters.http.filter_chain"

// Filters returns the configuration of Filter for a route; nil: it has no filters of its own. clusters are those of the authorizers.
func Filters(authorizers []filters.Authorizer, clusters []string, s filters.Session) *filterchainv3.FilterChainConfigPerRoute {
	var out []*corev3.TypedExtensionConfig
	for i, a := range authorizers {
		out = append(out, extension(authorization.Filter, authorization.Ask(a, clusters[i])))
	}
	if s.Name != "" {
		out = append(out, extension("envoy.filters.http.stateful_session", session(s)))
	}
	if len(out) == 0 {
		return nil
	}
	return &filterchainv3.FilterChainConfigPerRoute{FilterChain: &filterchainv3.FilterChain{Filters: out}}
}

func extension(name string, m proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: envoy.Any(m)}
}

// session keeps the requests of a client at the endpoint that answered its first one. If that is gone, or in no cluster that a request goes
// to, the session begins anew at another one.
func session(s filters.Session) *sessionv3.StatefulSession {
	if s.Header {
		return &sessionv3.StatefulSession{
			SessionState: extension("envoy.http.stateful_session.header", &headerv3.HeaderBasedSessionState{Name: s.Name}),
		}
	}
	c := &httpv3.Cookie{
		Name: s.Name, Path: s.Path, Ttl: durationpb.New(s.TTL),
		Attributes: []*httpv3.CookieAttribute{{Name: "SameSite", Value: "Strict"}}, // Envoy adds HttpOnly itself
	}
	if s.Secure {
		c.Attributes = append(c.Attributes, &httpv3.CookieAttribute{Name: "Secure"})
	}
	return &sessionv3.StatefulSession{
		SessionState: extension("envoy.http.stateful_session.cookie", &cookiev3.CookieBasedSessionState{Cookie: c}),
	}
}
