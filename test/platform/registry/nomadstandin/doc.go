// Package nomadstandin is an HTTP server that answers as Nomad's does, as far as services go: it is written from Nomad's API
// documentation (Services, Events, Blocking Queries, ACL), since Nomad's own server cannot be had here. Tests drive it with Nomad's real
// client.
//
// It serves GET /v1/services, GET /v1/service/:name, DELETE /v1/service/:name/:id and GET /v1/event/stream: namespaces and "*", blocking
// queries (index, wait), tokens that may read some namespaces, events from an index that it still has, heartbeats, and a buffer of
// events that forgets.
package nomadstandin
