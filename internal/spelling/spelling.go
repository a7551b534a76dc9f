// Package spelling tells how near an unknown name is to a known one that may have been meant. Any room may import it; it imports
// nothing of ours.
package spelling

import (
	"iter"
	"strings"
)

// Longest is the most bytes of an unknown name for which a search for similar names is worthwhile: real names are shorter.
const Longest = 64

// Distance returns how many bytes must be set, changed or removed to turn one text into the other, ignoring case. If the lengths
// differ by more than most, it returns most+1 without a comparison.
func Distance(a, b string, most int) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// DidYouMean suggests the known name that is nearest to an unknown one. At most so many bytes, and half of the name, may differ. If several
// names are equally near, it takes the first in the alphabet. It returns an empty text if no name is near.
func DidYouMean[T ~string](name string, known iter.Seq[T], most int) string {
	if len(name) > Longest {
		return ""
	}
	best, dist := "", most+1
	for n := range known {
		if d := Distance(name, string(n), most+1); d <= len(n)/2 && (d < dist || d == dist && d <= most && string(n) < best) {
			best, dist = string(n), d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// Plural returns the plural of a kind's name, as API servers form it: Gateways, Policies, Classes.
func Plural(kind string) string {
	if stem, is := strings.CutSuffix(kind, "y"); is && !strings.HasSuffix(stem, "a") {
		return stem + "ies"
	}
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}
