// Package clusters holds the tests of a control plane that reads several clusters: real API servers. One of them has the Secrets that say
// how the others are reached.
package clusters
