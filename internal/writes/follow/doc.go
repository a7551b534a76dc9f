// Package follow lists and watches one kind of a cluster's for as long as it is led: what is known of it is at hand by name, and each
// change is told. It knows nothing of what the objects are for.
package follow
