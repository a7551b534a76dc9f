// Package contest lists the other names that clients use for a host, and where another host may have such a name as its own. All functions
// are pure.
//
// It must not know which hosts exist.
package contest
