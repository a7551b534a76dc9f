// Package endpoint builds load assignments: endpoints grouped by place, weighted, with their health.
//
// An assignment depends on the endpoints and the port alone, in whatever order they come, so that equal sets of endpoints are equal bytes.
// The package must not know rules, subsets or tables: its caller selects the endpoints.
package endpoint
