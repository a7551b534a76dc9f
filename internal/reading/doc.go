// Package reading lets large answers wait for their turn: one is read at a time in the whole process, and sources take turns, however many
// answers one of them has. Small answers, and the beginning of each large one, are read at once.
//
// The package must not know who reads, nor what.
package reading
