// Package rule has the words that the rules of all kinds are written in: a Check, to which they say their problems, and checks of what
// many kinds have, such as ports, durations and selectors.
//
// A check that one room alone needs stands there, until another needs it. The package must not know any kind.
package rule
