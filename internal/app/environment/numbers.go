package environment

import (
	"fmt"
	"time"
)

// Positive returns an error if a duration is not positive. option names it.
func Positive(option string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: %s; want a positive duration as 30s", option, d)
	}
	return nil
}

// NotNegative returns an error if a duration is negative. option names it.
func NotNegative(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s: %s; want a duration as 30s, or 0", option, d)
	}
	return nil
}

// Count returns an error if a number is not positive. option names it.
func Count(option string, n int) error {
	if n <= 0 {
		return fmt.Errorf("%s: %d; want a positive number", option, n)
	}
	return nil
}
