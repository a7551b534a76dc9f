// Package authentication builds the filter that carries out RequestAuthentications: Envoy's envoy.filters.http.jwt_authn.
//
// The filter verifies the tokens that a request brings, refuses requests with a bad one, and stores the claims of a valid one in the
// request's metadata (Metadata, Claims), where policies and routes look for them. A request without a token passes, without claims.
//
// The package is pure, and must not know tables, workloads, which policies apply to a workload, or how keys are fetched.
package authentication
