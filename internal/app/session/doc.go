// Package session keeps the register of connected proxies: it turns streams that come and go, and what agents report on them, into
// rows of the graph's inputs. A proxy that reconnects finds its rows as they were, for a while.
//
// It must not know how callers prove who they are, nor what is sent to them.
package session
