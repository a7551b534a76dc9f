// Package front is one address before several servers, as a Service of Kubernetes is: each new connection goes to the next
// server that is not leaving and that takes it, and stays there until either end closes it.
//
// The package knows addresses alone, neither Kubernetes nor the mesh.
package front
