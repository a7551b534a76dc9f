// Package status has a row for each problem that rows note, and the conditions that follow from them for the statuses of objects. An object
// without problems has no row.
//
//	notes of rows ───────────┐
//	                         ├─► problems ─► problems by object ─► statuses
//	what proxies refuse ─────┘
//
// Proxies of other control planes refuse things too. Nothing but statuses may be made from that.
//
// The package must not know how statuses are written, nor which version of an object an API server has.
package status
