// Package counted makes metrics of an agent's certificates, under the names that Istio's agent has for them: when they end, requests to
// the authority, and files that cannot be read.
//
// It knows no certificates: Source has their names and ends. Begin with Source.
package counted
