// Package envoy turns model values into Envoy messages, one folder a kind of message: cluster, endpoint, listener,
// route, bootstrap. This folder holds what they end in: Encoded, a message as the bytes that go on the wire. Everything
// here is pure: no globals, no I/O, no clock, no map order in an output. It must not know tables, streams or where
// values came from.
package envoy
