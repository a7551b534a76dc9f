// Package rule has the tools for the rules of all kinds: a Check, which collects their problems, and checks of parts that many kinds have,
// such as ports, durations and selectors.
//
// A check that only one room needs belongs there, until another needs it. The package must not know any kind.
package rule
