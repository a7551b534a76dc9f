// Package install puts a control plane into a cluster and takes it away again: the chart that pilotctl carries, read and recorded with
// Helm's own packages. Helm list, helm upgrade and helm uninstall go on with what pilotctl installed, and the other way round. fill.go
// executes the chart's templates, with the same result as Helm.
//
// It applies the rendered objects by server-side apply. It must not know how the control plane works, nor what its flags mean: the chart
// does.
package install
