package exposition

import (
	"math"
	"strconv"
	"strings"
)

// cleanSample returns what may follow a sample's name in the text format: labels, a value and a timestamp in milliseconds.
// Exemplars, which only OpenMetrics has, are left out, and its timestamps in seconds are converted. It reports false if rest is not
// of a sample.
func cleanSample(rest string, open bool) (string, bool) {
	labels, tail := "", rest
	if strings.HasPrefix(rest, "{") {
		end, ok := endOfLabels(rest)
		if !ok {
			return "", false
		}
		labels, tail = rest[:end], rest[end:]
	}
	tail, _, _ = strings.Cut(tail, " # ")
	words := strings.Fields(tail)
	if len(words) == 0 || len(words) > 2 || !isFloat(words[0]) {
		return "", false
	}
	out := labels + " " + words[0]
	if len(words) == 1 {
		return out, true
	}
	if !open {
		_, err := strconv.ParseInt(words[1], 10, 64)
		return out + " " + words[1], err == nil
	}
	seconds, err := strconv.ParseFloat(words[1], 64)
	if err != nil || math.Abs(seconds) > math.MaxInt64/1e4 || math.IsNaN(seconds) {
		return "", false
	}
	return out + " " + strconv.FormatInt(int64(seconds*1000), 10), true
}

// endOfLabels returns where the block of labels ends that text begins with. Names are unique and plain, values are quoted, and have no
// escapes but \\, \" and \n.
func endOfLabels(text string) (int, bool) {
	seen := map[string]bool{}
	for i := 1; i < len(text); {
		switch {
		case text[i] == '}':
			return i + 1, true
		case len(seen) > 0 && text[i] == ',':
			i++
			if i < len(text) && text[i] == '}' {
				return i + 1, true
			}
		case len(seen) > 0:
			return 0, false
		}
		name, after, ok := strings.Cut(text[i:], "=")
		name = strings.TrimSpace(name)
		if !ok || !isName(name) || strings.Contains(name, ":") || name == "__name__" || seen[name] || !strings.HasPrefix(after, `"`) {
			return 0, false
		}
		seen[name] = true
		end, ok := endOfQuoted(after)
		if !ok || (name == "le" || name == "quantile") && !isFloat(after[1:end-1]) {
			return 0, false
		}
		i = len(text) - len(after) + end
	}
	return 0, false
}

// endOfQuoted returns where a quoted value ends that text begins with.
func endOfQuoted(text string) (int, bool) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1, true
		case '\\':
			if i++; i == len(text) || !strings.ContainsRune(`\"n`, rune(text[i])) {
				return 0, false
			}
		}
	}
	return 0, false
}

// isFloat reports whether text is a number as the text format has them: Go reads more.
func isFloat(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && !strings.ContainsAny(s, "_xX")
}
