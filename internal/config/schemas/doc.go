// Package schemas holds Istio's published CRD schemas, with their CEL rules, one JSON file for each kind.
//
// They are copied from the istio.io/api module that go.mod names when the project is built (`make schemas`, or go generate here, which runs
// gen), and are not part of the repository: until then data has only a README, so that a plain `go build` still compiles. A program built
// that way ends at once with an error that says so (Check): a Go package can embed only files of its own folder, and istio.io/api does not
// embed its schemas, so every build needs that step.
//
// Kinds of Kubernetes itself have no CRD: native holds a schema of ours for each, of the fields that their API page lists. InferencePool is
// there, too, so that no build needs the module of the inference extension. The package must not know what a kind means; config does.
package schemas

//go:generate go run ./gen
