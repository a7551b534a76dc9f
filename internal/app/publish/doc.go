// Package publish turns the rows that a turn changed into what the xds library publishes, and says of the library's rows what the
// tables have, for audits. Here resource types have their type URLs, and rows with the same content share one encoded resource.
//
// It must not know streams: who sees which shelf is in the tables.
package publish
