// Package code holds the codes of problems (mesh.Problem): one stable word per kind of mistake, which users search and alert by.
//
// A code never changes its meaning. One more comes with a line in docs/problems.md, which says of each what it means and what to do;
// internal/lint holds the two together, and that no code is written as a literal. The package must not know who finds a mistake.
package code
