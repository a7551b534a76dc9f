// Package app composes programs out of the rooms: it is the only one that may import all the others, and holds no
// knowledge of its own beyond how they fit.
//
// Discovery is the control plane. Its events flow one way, on one loop:
//
//	sources → shards → door → inputs → (turn) graph → publish → xds library → streams
//	streams → session → inputs: a proxy came, went, or refused something
//
// Any goroutine may stage rows on the inputs; only the loop makes turns, and streams only read what was published.
// Parts of the program that are one thing each are rooms below this one:
//
//   - registries: which registries are read beside Kubernetes, by a file that is followed;
//   - lasting: sources that come and go, and what each said last;
//   - pushed: other control planes that push configuration;
//   - lookup: addresses of names that proxies cannot be sent as names;
//   - publish: what changed in a turn, as the xds library takes it;
//   - secure: the address with TLS: the certificate authority, and xDS for callers who are known;
//   - proof: what a stream proved of its proxy, and what is withheld from one that proved nothing;
//   - lease: streams end with what they were opened with;
//   - session: the proxies that are connected, as rows;
//   - reader: other control planes that read the configuration;
//   - injection: the injector that is in force;
//   - serving: how gRPC is served: how long connections stay, what is logged, counted and waited for;
//   - standing: what is wrong, and what is waited for;
//   - memory: how the collector works, and what is given back to the system;
//   - environment: options that are environment variables;
//   - authority: the commands that work on the folder of root and tokens.
//
// None of them imports app.
package app
