// Package loop makes turns. One goroutine alone touches the graph: it settles what was staged, then calls the followers in order, which
// take what the turn changed to the outside. Clock lets any goroutine wait for turns.
package loop
