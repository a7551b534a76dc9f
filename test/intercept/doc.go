// Package intercept proves internal/agent/intercept on the kernel: real connections between network namespaces that
// each test makes for itself, with plain servers in the place of Envoy. It needs root, and skips without. If this
// machine lacks the programs of a back-end, its tests skip with that reason.
package intercept
