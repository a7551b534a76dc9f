// Package inbox gathers, between turns, what happens outside of the graph: what sources hand over, which proxies come and go, which
// roots hold. It must not know what an event does: the loop applies it.
package inbox
