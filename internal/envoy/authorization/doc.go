// Package authorization builds the filters that carry out AuthorizationPolicies: Envoy's RBAC for requests
// (envoy.filters.http.rbac) and for connections (envoy.filters.network.rbac), and the filters that ask an external authorizer.
//
// Compile makes the policies of RBAC out of one AuthorizationPolicy. Requests and Connections make filters out of all that
// hold for a workload. They decide in the order that the API reference gives: CUSTOM, then DENY, then ALLOW; where there is
// an ALLOW policy, what none of them matches is denied.
//
// A policy never lets more through by what cannot be compiled of it. A rule that lets requests through matches nothing
// then; of a rule that refuses requests the field is left out, so that it refuses more. The same holds for what can be known
// of requests alone, where connections are not HTTP. Compiled says which fields these are.
//
// The package is pure, and must not know tables, workloads, or which policies hold for whom.
package authorization
