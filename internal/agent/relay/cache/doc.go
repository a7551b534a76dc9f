// Package cache keeps the resources that an Envoy has acknowledged in a file, for the time when the control plane is away.
//
//	response ── Add ──► file ── Commit (Envoy acknowledged it) ──► index: name → version, place in the file ──► Versions, Read
//	                      └──── Abort (Envoy refused it)
//
// A file belongs to one node. A new session calls Take and becomes the only writer; any number of sessions may read. A file that was cut
// off by a crash is read up to its last whole record. After an error of the disk, or over its limit, a cache removes itself and keeps
// nothing, because Envoy must not start from an incomplete set of resources.
//
// It must not know sessions, streams or the control plane. Start reading in cache.go; file.go has the format of the file.
package cache
