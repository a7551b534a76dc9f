package inject

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"fairway/internal/printable"
)

// Checks of annotations' values. Each check takes the value and returns what would be right.

// mostItems bounds a list in an annotation.
const mostItems = 1000

// each checks the items of a list that is separated by commas; it skips empty ones.
func each(value string, check func(string) error) error {
	items := strings.Split(value, ",")
	if len(items) > mostItems {
		return fmt.Errorf("the list has %d items of at most %d", len(items), mostItems)
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := check(item); err != nil {
			return fmt.Errorf("%s: %w", quoted(item), err)
		}
	}
	return nil
}

func ports(star bool) func(string) error {
	return func(value string) error {
		if star && strings.TrimSpace(value) == "*" {
			return nil
		}
		want := "want ports from 1 to 65535 with commas between"
		if star {
			want += ", or * alone"
		}
		return each(value, func(item string) error {
			if n, err := strconv.ParseUint(item, 10, 16); err != nil || n == 0 {
				return errors.New(want)
			}
			return nil
		})
	}
}

func networks(star bool) func(string) error {
	return func(value string) error {
		if star && strings.TrimSpace(value) == "*" {
			return nil
		}
		want := "want networks as 10.0.0.0/8 with commas between"
		if star {
			want += ", or * alone"
		}
		return each(value, func(item string) error {
			if _, err := netip.ParsePrefix(item); err == nil {
				return nil
			}
			if _, err := netip.ParseAddr(item); err != nil {
				return errors.New(want)
			}
			return nil
		})
	}
}

// interfaces checks names as the agent and the kernel take them.
func interfaces(value string) error {
	return each(value, func(item string) error {
		if item == "+" || item == "." || item == ".." || len(item) > 15 || strings.ContainsAny(item, "/: \t\n\"'\\*") {
			return errors.New("want names of network interfaces with commas between; a + at the end matches any end")
		}
		return nil
	})
}

func number(least, most int) func(string) error {
	return func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
			return fmt.Errorf("%s is not a whole number from %d to %d", quoted(value), least, most)
		}
		return nil
	}
}

func truth(value string) error {
	if _, err := strconv.ParseBool(value); err != nil {
		return fmt.Errorf("%s is neither true nor false", quoted(value))
	}
	return nil
}

// oneOf accepts only the given words.
func oneOf(words ...string) func(string) error {
	return func(value string) error {
		for _, w := range words {
			if value == w {
				return nil
			}
		}
		return fmt.Errorf("%s is not one of %s", quoted(value), strings.Join(words, ", "))
	}
}

// longestWord bounds an argument that an annotation names: a log level, an image.
const longestWord = 1024

// plain accepts a word that may be an argument of the agent's: no space, no control character, and not the beginning of a flag.
func plain(value string) error {
	switch {
	case value == "" || len(value) > longestWord:
		return fmt.Errorf("want a word of at most %d bytes", longestWord)
	case strings.HasPrefix(value, "-"):
		return fmt.Errorf("%s: a word does not begin with -", quoted(value))
	case strings.ContainsAny(value, " \t\r\n$") || printable.Text(value, longestWord) != value:
		return fmt.Errorf("%s: want a word without spaces and $", quoted(value))
	}
	return nil
}
