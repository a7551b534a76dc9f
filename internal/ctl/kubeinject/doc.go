// Package kubeinject is `pilotctl kube-inject`: it puts proxies into the pods of a file of Kubernetes objects, for users who apply files in
// clusters without an injection webhook.
//
//	file ── split ─► pieces, each with its bytes ── objects with pods ── inject ─► bytes
//
// Objects without pods, and pods that are not injected or are already, come out byte for byte.
//
// It must not know how a pod is injected (package inject), and asks no control plane.
package kubeinject
