package source

import "strings"

// mostReasons is how many reasons are remembered of one outage.
const mostReasons = 3

// Reasons are why a source is not up to date: the last one, and the ones before it of the same outage. A server that fails in different
// ways by turns would otherwise show only one of them, whichever came last.
type Reasons struct {
	all []string // the last one first
}

// Add notes a reason. It reports whether that is another one than the last.
func (r *Reasons) Add(why string) bool {
	if why == r.Last() {
		return false
	}
	all := []string{why}
	for _, old := range r.all {
		if old != why && len(all) < mostReasons {
			all = append(all, old)
		}
	}
	r.all = all
	return true
}

// Clear forgets all reasons: the outage is over.
func (r *Reasons) Clear() { r.all = nil }

// Last returns the last reason. It is empty if the source is up to date.
func (r *Reasons) Last() string {
	if len(r.all) == 0 {
		return ""
	}
	return r.all[0]
}

// String returns all of them as one text. It is empty if the source is up to date.
func (r *Reasons) String() string { return strings.Join(r.all, "; before that: ") }
