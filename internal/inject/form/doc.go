// Package form checks the form of words that users write into annotations, charts and ProxyConfigs: ports, networks, numbers, arguments.
//
// A check takes a word and returns an error that says what would be right. The caller adds where the word is from.
//
// It is pure, and must not know what a word is for. Start reading in words.go.
package form
