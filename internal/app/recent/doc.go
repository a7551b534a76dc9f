// Package recent keeps the last lines of the log in memory, for a page and for reports of bugs: a program's output is not always kept.
package recent
