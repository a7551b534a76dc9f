// Package standing lists problems and waits: problems of the graph, objects that wait at the door, and sources that are out of
// date. It only reads, when a client asks for a page or scrapes metrics.
package standing
