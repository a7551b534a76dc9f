// Package paged is an array by small numbers, of which only the pages exist that were written to. It knows nothing of what is in it.
package paged
