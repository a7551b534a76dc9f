// Package kube holds the tests of the Kubernetes platform against a real API server (cluster): the source alone, and the
// whole control plane with proxies connected. Outages are real ones: connections are cut, the API server is killed, its
// history is forgotten, rights and definitions are taken away.
package kube
