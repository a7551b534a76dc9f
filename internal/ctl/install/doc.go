// Package install puts a control plane into a cluster and takes it away again: the chart that pilotctl carries (room chart), recorded as
// Helm records it. Helm list, helm upgrade and helm uninstall go on with what pilotctl installed, and the other way round.
//
// It applies the rendered objects by server-side apply. It must not know how the control plane works, nor what its flags mean: the chart
// does.
package install
