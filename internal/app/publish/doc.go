// Package publish turns the rows that a turn changed into changes of the xds library, and compares the library's rows with the tables, for
// audits. Here resource types have their type URLs, and rows with the same content share one encoded resource.
//
// It must not know streams: the tables decide which proxy sees which shelf.
package publish
