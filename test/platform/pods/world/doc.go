// Package world runs a whole mesh in a cluster for a test: a real API server, pilot-discovery as its control plane with its
// webhook, and the bookshop in pods that are real processes (kubelet), each injected, with its agent and its Envoy.
//
// Programs that start a world call kubelet.Enter first in main or TestMain.
package world
