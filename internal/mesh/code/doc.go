// Package code holds the codes of problems (mesh.Problem): one stable word per kind of mistake, for search and alerts.
//
// A code never changes its meaning. A new code needs a line in docs/problems.md that says what it means and what to do; internal/lint
// checks this, and that no code is written as a literal. The package must not know who finds a mistake.
package code
