// Package xds is the protocol room: the aggregated discovery service of xDS v3, state of the world and incremental.
//
// What is to be sent lies on shelves of a [Library]: a shelf is a set of named resources of one type, in the order of
// their last change. A proxy sees a type through a stack of shelves, in which a higher shelf shadows a lower one. The
// library is published turn by turn; a reader sees turn n or turn n+1, never a mix.
//
// A stream is a cursor over its stacks, not a queue: it wakes when one of its shelves changed, asks for the names
// that changed after its cursor, and sends what the client does not hold yet when the wire is free. However far a
// client falls behind, it costs one entry for each name it subscribes to.
//
// Names are strings at the edges alone. Within, a name is an entry of the library's catalog, with a small number by
// which shelves and streams find what they know of it: a request's names are looked up once, a resource's when it is
// published. A name that nothing was published under has no number: what a stream knows of it is in a map of its own.
// The catalog forgets what nobody holds. Streams that hold the same share the pages where they note it, and clients that
// come back with the same are looked up once.
//
// The laws of this room, each with a test:
//
//  1. After quiescence the client holds exactly what its stacks resolve to, for what it subscribes to.
//  2. What the client holds is not sent again, save where the protocol or Envoy needs it again.
//  3. Make before break, at the grain of names: listeners, routes and virtual hosts wait for the clusters that they
//     need until the client has ACKed them; load assignments and secrets wait for nothing; clusters are removed last, secrets once no
//     listener or cluster that may name them is to change.
//  4. A resource is encoded once, whoever receives it.
//  5. What a client rejected is found and not sent to it again until its content changes.
//
// The files machine.go, subscription.go, plan.go, gate.go, ack.go and nack.go are the protocol itself and pure: no
// locks, no clocks, no input or output. stream.go and server.go connect them to gRPC.
//
// The room must not know a mesh: it knows names, bytes, and which name must precede which. It imports nothing of
// ours.
//
//	lib := xds.NewLibrary()
//	srv := xds.NewServer(lib, xds.Options{}, hooks)
//	g := grpc.NewServer(srv.GRPC()...)
//	srv.Register(g)
//	lib.Publish(1, []xds.Change{{Shelf: "all", Type: xds.ClusterType, Name: "c", Resource: c}},
//		xds.Attach{Proxy: "p1", To: &xds.Attachment{Stacks: map[string][]xds.ShelfKey{xds.ClusterType: {"all"}}}})
package xds
