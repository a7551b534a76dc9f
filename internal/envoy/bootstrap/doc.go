// Package bootstrap builds the configuration that an Envoy starts with: who it is, where its control plane is, where its
// administration listens. Everything else it learns over ADS.
//
// Build is pure: the same Params give the same message. The package must not know where Params came from
// (environment, flags) or what happens to the result (internal/agent writes, validates and runs it).
package bootstrap
