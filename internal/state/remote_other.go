//go:build !linux

package state

// remote returns the kind of the file system of a folder if it is of another machine; empty: it is not, or that is not known.
func remote(string) string { return "" }
