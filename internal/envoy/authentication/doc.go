// Package authentication builds the filter that carries out RequestAuthentications: Envoy's envoy.filters.http.jwt_authn.
//
// The filter verifies the tokens that a request brings, refuses requests with a bad one, and leaves what a good one says in the
// request's metadata (Metadata, Claims), where policies and routes look. A request without a token passes, and says nothing.
//
// The package is pure, and must not know tables, workloads, which policies hold for whom, or how keys are come by.
package authentication
