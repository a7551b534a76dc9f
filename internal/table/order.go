package table

import "sort"

// order sorts by what compare says of two elements. slices.SortFunc would do the same, but is compiled anew for each table of the program,
// in fourteen functions: these were nearly half of the code of every package that declares tables.
func order[E any](list []E, compare func(a, b E) int) {
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// ordered lists what a map holds, by its keys in their order.
func ordered[K comparable, V any](of map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(of))
	for k := range of {
		keys = append(keys, k)
	}
	order(keys, compare)
	return keys
}
