// Package reading lets large answers wait for their turn: one is read at a time in the whole process, and sources take turns, whatever the
// number of their answers. Small answers, and the beginning of each large one, are read at once.
//
// The package must not know the readers, nor the answers.
package reading
