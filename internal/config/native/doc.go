// Package native has the rules of Kubernetes' own kinds that no schema says, as an API server has them, so that what stands in a file
// is refused as it would be there. Their specification is the documentation of the kinds at kubernetes.io, and the comments of k8s.io/api.
// It must not know what is made of them: compile/ingress does.
package native
