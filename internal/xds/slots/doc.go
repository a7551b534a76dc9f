// Package slots holds a stream's state for the names of one type: a table by the names' numbers, in pages. Streams with the same
// state share pages, through a pool. The state of names without a number is in a map of the table's own.
//
// It must not know the protocol: the code that sets the flags of a slot defines their meaning.
package slots
