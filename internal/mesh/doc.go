// Package mesh holds the words of the project: the values that every other room speaks in.
//
// Glossary, one word a thing:
//
//	Host       a fully qualified service name, lower case, possibly a wildcard ("*.example.com")
//	Service    a named set of ports, seen by namespaces, known to one registry
//	Port       one numbered, named port of a Service with the protocol spoken on it
//	Endpoint   one address that serves a Service
//	Workload   a running thing with labels, an identity and a place, that may serve many Services
//	Proxy      one connected Envoy: what its node id and metadata say of it
//	Layer      what a set of proxies sees alike: everybody, a namespace, a Sidecar's or a gateway's selection
//	Problem    something a user wrote that does not do what it says, and what would be right
//
// Two rooms hold words of their own: code has the codes of problems, alias how registries say that a service is another name for a host.
// Two check words from outside: nodeid reads a proxy's node id and metadata, regex checks regular expressions for Envoy.
//
// Values are immutable once handed on; keys are comparable. The package does no I/O. Of ours it imports only code and xdstype: it must not
// know where values come from (source) or how they are used (compile).
package mesh
