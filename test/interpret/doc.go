// Package interpret compares internal/interpret with real Envoys. It starts a mesh (package live) with mixed rules and sends thousands of
// random requests, which are drawn from the matchers of the proxies' own configurations, with small changes so that some nearly match.
// Each answer must be one that the interpreter predicts from the configuration that the Envoy reports, and the shares of answers must be
// those that it predicts. The traffic of one sidecar is redirected by the kernel, in a network namespace. A difference fails the test, with
// the interpreter's text.
package interpret
