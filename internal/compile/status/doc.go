// Package status has a row for each problem that rows note, and the conditions that follow from them for the statuses of objects. An object
// without problems has no row.
//
//	notes on rows ─► problems ┐
//	                          ├─► problems of an object ─► statuses
//	refusals by proxies ──────┘
//
// It must not know how statuses are written, nor which version of an object an API server has.
package status
