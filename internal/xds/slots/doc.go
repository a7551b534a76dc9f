// Package slots is where a stream notes what it knows of the names of one type: a table by the names' numbers, in pages. Streams
// that know the same share pages, through a pool. What is known of a name that has no number is in a map of the table's own.
//
// It must not know the protocol: what the flags of a slot mean is the business of who sets them.
package slots
