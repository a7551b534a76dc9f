// Package ads is a client of aggregated discovery that behaves as Envoy does, for scenarios and measurements: clusters
// and listeners by wildcard, load assignments and route configurations by reference, virtual hosts as one subscription
// without names once a route configuration carries vhds. It ACKs everything, and after a reconnect tells the server
// which resources it holds. It speaks the delta and the state-of-the-world protocol.
package ads
