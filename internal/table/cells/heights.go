package cells

import "math/bits"

// Heights is a set of tables by their height.
type Heights []uint64

// Set adds a height.
func (hs *Heights) Set(h int) {
	for h>>6 >= len(*hs) {
		*hs = append(*hs, 0)
	}
	(*hs)[h>>6] |= 1 << (h & 63)
}

// Pop removes the lowest height from the set and returns it.
func (hs Heights) Pop() (int, bool) {
	for i, word := range hs {
		if word != 0 {
			bit := bits.TrailingZeros64(word)
			hs[i] &^= 1 << bit
			return i<<6 | bit, true
		}
	}
	return 0, false
}
