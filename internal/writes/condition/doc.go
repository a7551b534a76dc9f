// Package condition reads and writes one condition of a status (istio.meta.v1alpha1.IstioStatus), beside those of others, which stay.
// It must not know what a condition means.
package condition
