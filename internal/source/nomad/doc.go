// Package nomad is the source of what Nomad's own service discovery holds: services that jobs register with the provider "nomad", and
// what serves them.
//
//	list, and each service ─► lane (one a namespace) ─► platform.Book ─► platform.Outbox
//	event stream, by index ─┘
//
// What a lane has read is of an index of Nomad's. The stream of events goes on from there, and each event holds the whole
// registration: nothing is asked for it. Nomad tells nobody that it has forgotten events. So once a stream is open the list's index is
// asked for: where it is the lane's, nothing was missed; otherwise the stream has to begin with the event that the lane heard last, or
// everything is listed again.
//
// The package must not know what rows are made of instances, nor which of them stay (platform).
package nomad
