// Package consul reads services and their instances from a Consul datacenter, by blocking queries of its HTTP API.
//
//	/v1/catalog/services          one query waits ──► which services there are
//	/v1/health/service/NAME       one query a service waits ──► its instances, tags, metadata, checks ──► rows
//	/v1/config/service-defaults   one query waits ──► protocols
//	/v1/status/leader             every 5 s ──► whether the server is there, and has a leader
//
// # What is bounded
//
// A Consul has no query that says which services changed: the list has names alone, and all instances with their indexes are
// megabytes. So a query waits for each service. Over TLS these share connections, by HTTP/2: 250 wait on one, and there are
// at most 190 connections. Over plain HTTP each has a connection, and Consul takes 200 of an address; so only the 100
// services that changed last are waited for. The others are searched whenever the list's index has risen, which it does when
// any instance comes, goes or changes: of each the index alone is asked for (an answer without instances, about 400 bytes),
// by 8 at once, those first that changed last; a service with a new index is read, and waited for from then on. After that
// search nothing is searched for three times as long as it took, so it takes no more than a quarter of the time. Checks of
// those services that fail or recover are seen at once: two queries wait for the lists of critical and warning checks. If
// Consul says that there are too many connections, fewer services are waited for.
//
// With 5000 services of ten instances a change costs one request and about 9 kB over HTTP/2, as with 2000; over HTTP/1.1 it
// costs 0.4 kB for each service that may have been the one, and comes as late as the search does. A service that is waited
// for takes 25 kB of memory. docs/registries/consul.md has all figures.
//
// Names that only proxies and gateways serve are looked at every 30 seconds.
//
// # A server that goes away
//
// Servers are called in the order of their URLs. One that refuses, breaks off, has no leader or does not answer its beat ends
// all that waits for it; the next one is asked for changes since the indexes that are known. The state that was read stays,
// and is reported as stale meanwhile. An index lower than the last one means that Consul lost its data, or that another
// server lags behind: all is read anew, and services and instances that are missing then stay for some time (keepMissing).
//
// The package must not know other registries, nor what becomes of rows.
package consul
