// Package spelling tells how near a name that nobody knows is to one that may have been meant. Any room may import it;
// it imports nothing of ours.
package spelling

import "strings"

// Longest is how many bytes a name of a stranger may have for it to be worth asking what was meant: names that mean something are shorter.
const Longest = 64

// Distance is how many letters must be set, changed or removed to make one text of another, without regard to case;
// texts whose lengths differ by more than most are not looked at, and are most+1 apart.
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
