// Package intercept proves internal/agent/intercept on the kernel: real connections between network namespaces that
// each test makes for itself, with plain servers where Envoy would stand. It needs root, and skips without; a back-end
// whose programs this machine lacks skips with that reason.
package intercept
