// Package kubeclient has clients of the kinds that programs read and write in a cluster, in Go's types. client-go's generated clients do
// the same, but share a scheme of every API group that there is, which links all of them.
package kubeclient
