package selects

import (
	"iter"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/spelling"
)

// DidYouMean names, as a fix, the label that was probably meant by one of a selector's (Meant). Empty: there is none.
func DidYouMean(selector mesh.Labels, workloads iter.Seq[mesh.Labels]) string {
	name, value, found := strings.Cut(Meant(selector, workloads), "=")
	if !found {
		return ""
	}
	return "did you mean " + name + ": " + value + "?"
}

// Meant returns the label that was probably meant by one of a selector's, in place of it: the label of a workload that has all others, and
// the same name or value. Empty: there is none. With one label alone, what differs must be near.
func Meant(selector mesh.Labels, workloads iter.Seq[mesh.Labels]) string {
	pairs := selector.Pairs()
	best, least := "", spelling.Longest
	for labels := range workloads {
		missing := ""
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			if has, ok := labels.Get(name); ok && has == value {
				continue
			}
			if missing != "" {
				missing = ""
				break
			}
			missing = pair
		}
		if missing == "" || len(missing) > 2*spelling.Longest {
			continue
		}
		for _, has := range labels.Pairs() {
			if d := apart(missing, has, len(pairs) > 1); d < least || d == least && has < best {
				best, least = has, d
			}
		}
	}
	return best
}

// apart returns how many letters differ in two labels with the same name or the same value; spelling.Longest+1: too many, or both differ.
// With others, any value of the same name is near enough.
func apart(a, b string, others bool) int {
	const far = spelling.Longest + 1
	nameA, valueA, _ := strings.Cut(a, "=")
	nameB, valueB, _ := strings.Cut(b, "=")
	near := func(a, b string) int {
		if d := spelling.Distance(a, b, 2); d <= 2 && d < min(len(a), len(b)) {
			return d
		}
		return far
	}
	switch {
	case nameA == nameB && others:
		return min(near(valueA, valueB), spelling.Longest-1)
	case nameA == nameB:
		return near(valueA, valueB)
	case valueA == valueB:
		return near(nameA, nameB)
	}
	return far
}
