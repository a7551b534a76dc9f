// Package authorization builds the filters that carry out AuthorizationPolicies: Envoy's RBAC for requests
// (envoy.filters.http.rbac) and for connections (envoy.filters.network.rbac), and the filters that ask an external authorizer.
//
// Compile turns one AuthorizationPolicy into RBAC policies. Requests and Connections build the filters from all policies that apply to a
// workload. They decide in the order that the API reference gives: CUSTOM, then DENY, then ALLOW; if there is an ALLOW policy, requests
// that no ALLOW policy matches are denied.
//
// A policy never allows more because a part of it cannot be compiled. Then a rule that allows requests matches nothing; a rule that denies
// requests is compiled without the field, so that it denies more. On connections that are not HTTP, the same holds for fields that only
// requests have. Compiled lists these fields.
//
// The package is pure, and must not know tables, workloads, or which policies apply to a workload.
package authorization
