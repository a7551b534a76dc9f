// Package standing lists what is wrong and what is waited for: problems of the graph, objects that wait at the door, and sources that
// are not kept up to date. It only reads, when somebody asks or scrapes.
package standing
