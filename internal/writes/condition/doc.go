// Package condition reads and writes one condition of a status (istio.meta.v1alpha1.IstioStatus); conditions of other writers stay. It must
// not know the meaning of a condition.
package condition
