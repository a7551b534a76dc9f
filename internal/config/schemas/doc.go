// Package schemas holds Istio's published CRD schemas, with their CEL rules, one JSON file a kind.
//
// They are taken out of the istio.io/api module that go.mod names, when the project is built (`make schemas`, or go generate here),
// and never copied into the tree: data holds nothing but a README until then, so that a plain `go build` compiles all the same.
// The package must not know what a kind means; config does.
package schemas

//go:generate go run ./gen
