// Package patch derives from EnvoyFilter objects what each proxy's agent changes in its Envoy's bootstrap
// (configPatches with applyTo: BOOTSTRAP). Each such patch is a resource of its own, so that a changed one goes to just
// the proxies that it is for. All other patches are accepted and have no effect yet.
//
// It must not know how a bootstrap is made, nor what is in it: the agent merges, and its Envoy says whether it takes the outcome.
package patch
