// Package publish turns the rows that a turn changed into changes of the xds library, and gives audits the tables' rows to compare the
// library with. Here resource types have their type URLs, and rows with the same content share one encoded resource.
//
// It must not know streams: the tables decide which proxy sees which shelf.
package publish
