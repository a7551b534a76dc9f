// Package pods holds the tests of a whole mesh in a cluster: a real API server, the program pilot-discovery as its control
// plane, and pods that are real processes (kubelet), injected by the webhook, each with the kernel's redirection, an agent and
// an Envoy. It needs root and namespaces, and skips where it cannot have them.
package pods
