// Package patch derives from EnvoyFilter objects what each proxy's agent changes in its Envoy's bootstrap
// (configPatches with applyTo: BOOTSTRAP). Each such patch is a resource of its own, so that a changed one goes to just
// the proxies that it is for.
//
// All other patches change what is sent: which of them are for a proxy is a part of where it stands (demand.Placement), and
// what they make of a resource stands on a shelf above it, for those proxies alone. What they add has a shelf of its own.
//
// It must not know how messages are made, nor what is in them: envoy/amend merges messages, the agent a bootstrap.
package patch
