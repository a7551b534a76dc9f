// Package conformance runs the Gateway API conformance suite against the cluster that KUBECONFIG names. It is a module of its own, because
// the suite needs a newer Go than the control plane. It knows nothing of the control plane.
//
// The program that the suite's pods run, echo-basic, is a tool of this module: it is built in the version that the suite wants.
package conformance
