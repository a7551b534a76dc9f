// Package pool reads InferencePools: the host that a pool has in tables, the ports of its endpoints, and its endpoint picker. It is pure.
//
// The specification is the inference extension's (inference.networking.k8s.io): the comments of InferencePoolSpec, and its Endpoint Picker
// Protocol.
package pool
