// Package dynamic builds Envoy's dynamic forward proxy, for services of resolution DYNAMIC_DNS. When a request or a connection comes, the
// proxy resolves the name that it asks for and connects to the result. Three parts share one DNS cache: a cluster, HTTP filters that
// resolve the name in a Host header, and a connection filter that resolves a TLS server name. The cluster resolves nothing itself; it
// finds the filters' results in the cache.
//
// So a client chooses where the proxy connects to, within the limits of the routes and filter chains that lead to such a cluster. A route
// may lead to one only with the condition Under, and a filter chain only for server names below the wildcard. Answers says which addresses
// are allowed.
//
// The package must not know rules or tables.
package dynamic
