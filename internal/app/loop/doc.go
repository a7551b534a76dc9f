// Package loop makes turns. Only one goroutine touches the graph: it settles the staged inputs, then calls the followers in order, which
// pass the turn's changes on. Clock lets any goroutine wait for turns.
package loop
