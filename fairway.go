// Package fairway names the project's version; everything else stands below internal, cmd and test.
package fairway

import "strings"

// Release is the version of this tree. The charts have it too.
const Release = "0.1.0"

// The build sets these by the linker (see the Makefile). Without that a program is of this tree, and says of no commit.
var (
	// Version is what the programs call themselves: the tag, or the tag, the number of commits since, and the commit.
	Version = Release
	// Commit is the commit that the program was built from, or empty.
	Commit string
	// Date is when that commit was made, as 2026-11-28T10:02:03Z, or empty: two builds of a commit are equal.
	Date string
)

// Full returns the version with the commit and its date, as far as they are known: "0.1.0 (commit 33b3bc145bd2, 2026-11-28T10:02:03Z)".
func Full() string {
	var more []string
	if Commit != "" {
		more = append(more, "commit "+Commit)
	}
	if Date != "" {
		more = append(more, Date)
	}
	if len(more) == 0 {
		return Version
	}
	return Version + " (" + strings.Join(more, ", ") + ")"
}
