// Package nomad is the source of Nomad's own service discovery: services that jobs register with the provider "nomad", and their
// instances.
//
//	list, and each service ─► lane (one a namespace) ─► platform.Book ─► platform.Outbox
//	event stream, by index ─┘
//
// A lane has read everything up to an index of Nomad's. The stream of events goes on from there, and each event holds the whole
// registration: no request is made for it. Nomad does not report that it has forgotten events. So once a stream is open, the list's
// index is asked for: if it is the lane's, nothing was missed; otherwise the stream must begin with the last event that the lane
// received, or everything is listed again.
//
// The package must not know what rows are made of instances, nor which of them stay (platform).
package nomad
