// Package agent runs Envoy beside a workload. In order: Resolve reads flags, environment and files as istio-proxy's agent
// does and turns them into Options; Run writes the bootstrap, has Envoy validate it, starts Envoy and stays with it until it ends or is asked to stop.
//
// Its law: what it started it ends, and what it wrote for its own use it removes. A supervisor owns one process per epoch;
// hot restart will add a second epoch beside the first, so nothing outside supervisor may assume that there is one only.
//
// It must not know how configuration is made: the control plane does that, over xDS. It links nothing of Kubernetes.
package agent
