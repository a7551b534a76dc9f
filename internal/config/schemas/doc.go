// Package schemas holds Istio's published CRD schemas, with their CEL rules, one JSON file a kind.
//
// They are taken out of the istio.io/api module that go.mod names, when the project is built (`make schemas`, or go
// generate here, which runs gen), and never copied into the tree: data holds nothing but a README until then, so that a plain `go
// build` compiles all the same. What it makes ends at once and says so (Check): a Go package can embed files of its own
// folder alone, and istio.io/api has none that embeds its schemas, so no build gets at them without that step.
//
// Kinds of Kubernetes itself have no CRD: native holds a schema of ours for each, of the fields that their API page lists.
// The package must not know what a kind means; config does.
package schemas

//go:generate go run ./gen
