// Package dynamic builds Envoy's dynamic forward proxy, for services of resolution DYNAMIC_DNS: what a request or a
// connection says that it is for is resolved when it comes, and it goes there. Three parts work together on one cache of
// answers: a cluster, filters of requests that have the name of a Host header resolved, and a filter of connections
// that has a TLS server name resolved. A cluster by itself resolves nothing; what the filters had resolved it finds in
// the cache.
//
// So whoever is led to such a cluster chooses where the proxy connects to, within what leads there: Under is the
// condition without which no route may lead to one, and a filter chain takes none but server names below the wildcard.
// Which answers count, Answers says.
//
// The package must not know rules or tables.
package dynamic
