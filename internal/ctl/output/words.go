package output

import (
	"fmt"
	"time"
)

// Clock returns a time of day as an addition to a sentence, in brackets; nothing if it is not known.
func Clock(at *time.Time) string {
	if at == nil {
		return ""
	}
	return " (" + at.UTC().Format("15:04:05.000") + ")"
}

// Plural returns a number with the noun that it counts.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
