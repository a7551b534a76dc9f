// Package admin speaks to an Envoy's administration: is it live, what do its statistics say, do this.
//
// It must not know which Envoy that is, nor what follows from an answer. Every request opens a connection of its own:
// an Envoy that was hot-restarted goes on answering on the connections that it has, while a new one finds its
// successor.
package admin
