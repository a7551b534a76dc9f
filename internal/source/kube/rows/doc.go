// Package rows reads the objects of an API server, one at a time, and returns what the sink has to learn of them: new rows, and the keys of
// removed ones.
//
//	object ─► Reader.Set, Remove ─► translate or the decoder ─► is it another row than the sink has? ─► Made
//
// A Reader remembers as little of what it handed on as it needs: so an update that changes no row costs nothing further on, and an endpoint
// that is in several slices counts once. A list has a new Reader, which may look at the one before it.
//
// It must not know lists, watches, or API servers. Start reading in reader.go; own.go has the kinds of Kubernetes' own, objects.go the
// custom resources, slices.go EndpointSlices.
package rows
