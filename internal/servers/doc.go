// Package servers calls strangers' servers that hold parts of a mesh (registries, etcd): their addresses; certificates, tokens and
// passwords, read anew from files; answers that are bounded in bytes and time; and waits between tries.
//
//	Reach, Calls ─► http.Client: one answer, bounded; its errors hide the credentials that the server was sent
//
// The package must not know any one kind of server.
package servers
