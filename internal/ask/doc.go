// Package ask gets values from outside that rows need and that come later: it asks for each wanted key again and again, and reports each
// answer that differs from the one before. While a new answer is missing, the last good one stays.
//
// Strangers may cause keys to be wanted, so the number of keys, and of questions at once, is bounded, and each share gets its part.
//
// The package must not know the questions, or who answers them.
package ask
