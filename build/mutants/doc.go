// Command mutants measures whether tests notice mistakes: it makes random one-token mistakes in packages, one at a time, runs tests
// on each, and prints those that no test noticed. `make mutants PKG=./internal/door N=40` runs it; --help lists the flags.
//
// The tree is never written to: each mutant is an overlay of the build.
package main
