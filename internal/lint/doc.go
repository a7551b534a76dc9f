// Package lint holds tests about this tree: which room may import which, that every package states its purpose, and the few habits that a
// general linter does not know. It holds no code that runs.
package lint
