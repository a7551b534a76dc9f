// Package accesslog reads lines of Envoy's access logs and knows what each response flag and detail means.
//
// Parse reads a line in Envoy's own format, in Istio's and this project's, as JSON, or in a format that a user gives (NewFormat). Causes
// returns the rows of the table that say what a line tells of, the most exact first. The table is causes.txt; docs/response-flags.md is
// made of it.
//
// The package is pure: it knows no control plane and no objects. Lines come from anybody: their size is bounded and no text of theirs is
// interpreted. Start reading at Parse.
package accesslog
