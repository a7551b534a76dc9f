// Package native has the rules of Kubernetes' own kinds that are not in a schema, as in an API server, so that an object in a file is
// refused if a cluster would refuse it. Their specification is the documentation of the kinds at kubernetes.io, and the comments of
// k8s.io/api. It must not know what these objects are turned into: compile/ingress does.
package native
