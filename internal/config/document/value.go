package document

import (
	"strconv"
	"strings"
)

// Value returns the value of a field of the tree; nil if there is none.
func Value(v any, at string) any {
	for at != "" && v != nil {
		at = strings.TrimPrefix(at, ".")
		switch t := v.(type) {
		case []any:
			end := strings.IndexByte(at, ']')
			if end < 1 {
				return nil
			}
			i, err := strconv.Atoi(at[1:end])
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			v, at = t[i], at[end+1:]
		case map[string]any:
			best := ""
			for k := range t {
				if len(k) > len(best) && startsWith(at, k) {
					best = k
				}
			}
			if best == "" && strings.HasPrefix(at, "[") {
				end := strings.IndexByte(at, ']')
				if end < 0 {
					return nil
				}
				v, at = t[at[1:end]], at[end+1:]
				continue
			}
			if best == "" {
				return nil
			}
			v, at = t[best], at[len(best):]
		default:
			return nil
		}
	}
	return v
}
