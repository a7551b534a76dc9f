// Package kubeinject is `pilotctl kube-inject`: it puts proxies into the pods of a file of Kubernetes objects, for those who
// apply files where no webhook injects.
//
//	file ── split ─► pieces, each with its bytes ── objects with pods ── inject ─► bytes
//
// What holds no pod, or one that is not injected or is already, comes out byte for byte.
//
// It must not know how a pod is injected (package inject), and asks no control plane.
package kubeinject
