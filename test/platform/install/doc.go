// Package install puts the chart into a real cluster with pilotctl, as a user does, and takes it away again. The tests check the applied
// objects, the rights that the control plane needs, the scope of its webhooks, the objects that stay behind, and how pilotctl finds the
// control plane there. The cluster has no machines: a small kubelet of the tests' own says that pods run, and forwards their ports to a
// control plane in the test.
package install
