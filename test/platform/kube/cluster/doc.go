// Package cluster runs a real Kubernetes API server in a test: etcd, the API server and the controller manager, as
// processes on ports and with certificates of their own. There is no kubelet: tests set the status of pods.
//
// Gate connects a client and the API server, so that a test can cut their connection and give it back. The API server
// can be killed and started again with its stored objects. Kubectl is the real one, of the same version.
//
// The package knows Kubernetes alone, neither the mesh nor its control plane.
package cluster
