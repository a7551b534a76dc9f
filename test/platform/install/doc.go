// Package install puts the chart into a real cluster with pilotctl, as a user does, and takes it away again: what is applied, with which
// rights the control plane gets by, whom its webhooks are asked for, what stays behind, and how pilotctl finds it there. The cluster has no
// machines: a small kubelet of the tests' own says that pods run, and forwards their ports to a control plane in the test.
package install
