// Package mixed runs one service with instances in several registries at once: a real Kubernetes API server, a real Consul, a real Eureka
// and files. A real pilot-discovery reads them. The client calls through a real agent's Envoy, to which the kernel redirects its
// connections. Instances come and go, registries are killed and come back with nothing, and no request may fail.
package mixed
