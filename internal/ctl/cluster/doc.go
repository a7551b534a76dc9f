// Package cluster finds control planes in a Kubernetes cluster and reaches their pages as kubectl port-forward does: through the API
// server, with the rights of a kubeconfig's user. Such requests come from the pod's own loopback, where a control plane shows all its
// pages.
//
// It must not know the content of the pages.
package cluster
