// Package scale measures how much registries cost the program as users run it: the time from a change in a real server to the connections
// of a hundred proxies, the processor's time for that among few services and among many, and the memory of services that come from
// registries compared with the same services in files. Counts are exact and asserted; times are bounded generously, and logged.
//
//	go test ./test/platform/scale -v                                  # small, as every run of the tests has it
//	go test ./test/platform/scale -v -services 5000 -instances 10     # what docs/performance.md has; minutes a registry
package scale
