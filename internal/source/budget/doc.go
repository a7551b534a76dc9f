// Package budget bounds what one source may keep: bytes, things, endpoints, ports and refusals.
//
//	Account   the sums of one source, or of one cluster, and its bounds
//	Ledger    what each key costs: a charge replaces the one before it, a removed key gives its charge back
//	Refusals  which places have problems; beyond a bound they are counted, not remembered
//
// Lists, watches and deltas are counted by the same calls. A list is a Draft of a ledger, which takes its place once all
// of the list was read. Things that do not fit are left out, and Account.Problem names the numbers. Start reading at
// Account.
//
// The package must not know any source, nor what a thing is.
package budget
