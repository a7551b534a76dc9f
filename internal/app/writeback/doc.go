// Package writeback passes on what turns change, and what the cluster has, to internal/writes: conditions of objects, health and
// registration of machines, addresses of Ingresses, certificates, and what proxies refuse.
package writeback
