// Package world runs a whole mesh in a cluster for a test: a real API server, pilot-discovery as its control plane with its
// webhook, and the bookshop in pods that are real processes (kubelet), each injected, with its agent and its Envoy.
//
// Whoever starts one calls kubelet.Enter first thing in its main or TestMain.
package world
