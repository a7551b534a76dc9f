// Package session keeps the register of connected proxies: it turns streams that come and go, and the reports of their agents, into
// rows of the graph's inputs. A proxy that reconnects finds its rows unchanged, for a while.
//
// It must not know how callers are authenticated, nor which resources are sent to them.
package session
