// Package webhooks holds the tests of injection and validation by a real API server, which asks a whole control plane: pods that
// its controllers make, and rules that its users write.
package webhooks
