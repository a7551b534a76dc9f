// Package kubeclient has clients for the kinds that programs read and write in a cluster, in Go's types. client-go's generated
// clients do the same, but share a scheme of all API groups, and so link all of them.
package kubeclient
