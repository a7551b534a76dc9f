// Package app composes programs out of the rooms. Only this package may import all the others; it knows only how they fit together.
// discovery.go lists the parts of the control plane in the order of the flow of rows.
//
// Events flow one way, on one loop:
//
//	sources → shards → selectors → quota → pace → door → inputs → (turn) graph → publish → xds library → streams
//	streams → session → inputs: a proxy came, went, or refused something
//
// Any goroutine may stage rows on the inputs; only the loop makes turns, and streams only read what was published.
// Each room below has one purpose and does not import app:
//
//   - loop: turns, what follows them, and waiting for them;
//   - publish: what changed in a turn, as the xds library takes it;
//   - audit: what proxies were sent, compared with the tables;
//   - applies: for which proxies an object makes a difference;
//   - planned: what a change would do, for callers that may not have a snapshot;
//   - history: the last turns, in memory and on disk, and the turns that brought objects into force;
//   - flagfiles: the files that flags name, at the start;
//   - live: whether an object's version, or a turn, is in force on all proxies;
//   - standing: what is wrong, and what is waited for;
//   - clusters: the own Kubernetes cluster, and others that its Secrets name;
//   - selectors: which namespaces sources read;
//   - configsources: sources that the mesh configuration names;
//   - registries: which registries are read beside Kubernetes, by a file that is followed;
//   - lasting: sources that come and go, and what each said last;
//   - machines: registered machines, shared with other control planes;
//   - pushed: other control planes that push configuration;
//   - wanted: Secrets, keys and addresses that rows want from outside;
//   - lookup: addresses of names that proxies cannot be sent as names;
//   - reached: which objects of the cluster all proxies have;
//   - writeback: what turns change, for what is written into the own cluster;
//   - session: the proxies that are connected, as rows;
//   - reader: other control planes that read the configuration;
//   - serving: how gRPC is served: how long connections stay, what is logged, counted and waited for;
//   - secure: the address with TLS: the certificate authority, and xDS for callers who are known;
//   - proof: what a stream proved of its proxy, and what is withheld from one that proved nothing;
//   - lease: streams end with what they were opened with;
//   - istioctl: what istioctl asks over xDS, answered by the debug pages;
//   - injection: what API servers ask, and the injector in force;
//   - listen: addresses, and the pages served there;
//   - memory: how the collector works, and what is given back to the system;
//   - recent: the last lines of the log;
//   - replay: a snapshot in place of everything outside;
//   - environment: options that are environment variables, and this process's name;
//   - sharing: the state that control planes share: where it is, its problems, and how it is saved;
//   - authority: the commands that work on root and tokens.
package app
