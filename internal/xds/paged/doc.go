// Package paged is a sparse array with small numbers as indices: only pages that were written to exist. It knows nothing of its
// elements.
package paged
