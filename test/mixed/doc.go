// Package mixed runs one service whose instances stand in several registries at once: a real Kubernetes API server, a real Consul, a
// real Eureka and files, read by a real pilot-discovery, called through a real agent's Envoy that the kernel hands the client's
// connections. Instances come and go, registries are killed and come back with nothing, and no request may fail.
package mixed
