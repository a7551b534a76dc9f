// Package xds serves the aggregated discovery service of xDS v3, state of the world and incremental, over gRPC.
//
// Its rooms, each of which may import those above it:
//
//   - paged: an array by small numbers, of which only the pages exist that were written to;
//   - library: what is to be sent, on shelves, and which proxy sees which shelves;
//   - slots: what one stream knows of the names of one type, in pages that streams which know the same share;
//   - wire: discovery requests and responses as bytes;
//   - protocol: the pure state machine of one stream, with neither locks nor clocks nor input and output;
//   - xds itself: streams, which connect machines to gRPC, and the server, which admits them, holds them to their limits, drains
//     them and tells their state.
//
// A stream is a cursor over the shelves that its proxy sees, not a queue: it wakes when one of them changed, asks for the names
// that changed after its cursor, and sends what the client does not hold yet when the wire is free. However far a client falls
// behind, it costs one entry for each name it subscribes to.
//
// The laws of the room, each with a test:
//
//  1. After quiescence the client holds exactly what its stacks resolve to, for what it subscribes to.
//  2. A resource that the client holds is not sent again, unless the protocol or Envoy needs it again.
//  3. Make before break, at the grain of names: listeners, routes and virtual hosts wait for the clusters that they
//     need until the client has ACKed them; load assignments and secrets wait for nothing; clusters are removed last, secrets once no
//     listener or cluster that may name them is to change.
//  4. A resource is encoded once for all clients.
//  5. A resource that a client rejected is found, and not sent to it again until its content changes.
//
// The room must not know a mesh: it knows names, bytes, and which name must precede which.
//
//	lib := library.New()
//	srv := xds.NewServer(lib, xds.Options{}, hooks)
//	g := grpc.NewServer(srv.GRPC()...)
//	srv.Register(g)
//	lib.Publish(1, []library.Change{{Shelf: "all", Type: xdstype.ClusterURL, Name: "c", Resource: c}},
//		library.Attach{Proxy: "p1", To: &library.Attachment{Stacks: map[string][]library.ShelfKey{xdstype.ClusterURL: {"all"}}}})
package xds
