// Package patch derives from EnvoyFilter objects the changes that each proxy's agent makes to its Envoy's bootstrap (configPatches with
// applyTo: BOOTSTRAP). Each such patch is a resource of its own, so that a changed one is sent only to the proxies that it is for.
//
// All other patches change resources that are sent. The set of patches for a proxy is part of its placement (demand.Placement). A changed
// resource is on a shelf above the original, for those proxies alone; added resources have a shelf of their own.
//
// It must not know how messages are made, nor their content: envoy/amend merges messages, the agent merges a bootstrap.
package patch
