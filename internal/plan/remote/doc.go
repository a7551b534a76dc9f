// Package remote asks another control plane over xDS which resources it would send a proxy: as a client with the proxy's node, in the
// state-of-the-world protocol, which every control plane speaks (Fairway of any version, istiod). It asks for clusters, listeners, the load
// assignments that clusters name, and the route configurations that listeners name, and takes the first complete answers.
package remote
