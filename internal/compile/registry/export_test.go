package registry

// Slots is how many addresses all rounds together may give.
func Slots() (n int) {
	share := firstShare
	for range rounds {
		n += share
		share /= 2
	}
	return n
}
