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
func Plural(n int, noun string) string { return Number(n, noun, noun+"s") }

// Number is Plural for a noun, or a few words, with a plural of their own.
func Number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
