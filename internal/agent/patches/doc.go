// Package patches holds the control plane's changes of Envoy's bootstrap by EnvoyFilter objects, and merges them into the override
// that Envoy merges over its bootstrap (--config-yaml).
//
//	relay ── Subscription ─► Set ── Override ─► Envoy's --config-yaml
//
// A patch that Envoy cannot run with is left out until it changes, by the next agent too: the history of patches is kept on disk.
// The changes of a patch are limited (check.go), because its author does not run the machine.
//
// It must not know how an Envoy is started, nor how the patch that makes it fail is found: package proxy does.
package patches
