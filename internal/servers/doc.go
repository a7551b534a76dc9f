// Package servers says how servers of strangers are called that hold what a mesh is made of (registries, etcd): their addresses,
// certificates, tokens and passwords, read anew from files; answers that are bounded in bytes and time; and waits between tries.
//
//	Reach, Calls ─► http.Client: one answer, bounded; what a server was shown is hidden in its errors
//
// The package must not know any one kind of server.
package servers
