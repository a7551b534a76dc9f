// Package reader lets authorized control planes read the configuration. Their xDS streams have the node metadata "GENERATOR":
// "api", as Istio's own clients of this kind send it. All other streams are passed on. It must not know which resources they get
// (compile/exported), nor how (xds).
package reader
