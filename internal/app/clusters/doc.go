// Package clusters reads Kubernetes clusters: the own one, and others that its Secrets name.
package clusters
