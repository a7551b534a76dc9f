// Package patches holds what the control plane changes in Envoy's bootstrap by EnvoyFilter objects, and merges it into
// what Envoy merges over its bootstrap (--config-yaml).
//
//	relay ── Subscription ─► Set ── Override ─► Envoy's --config-yaml
//
// A patch that Envoy cannot run with is left out until it changes, by the next agent too: what agents have seen of
// patches is kept on disk. What a patch may change is bounded (check.go), for its author is not who runs the machine.
//
// It must not know how an Envoy is started, nor how it is found out which patch is to blame: package proxy does.
package patches
