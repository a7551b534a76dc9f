// Package writeback passes the changes of turns, and the objects of the cluster, to internal/writes: conditions of objects, health and
// registration of machines, addresses of Ingresses, certificates, and rejections by proxies.
package writeback
