package form

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"fairway/internal/printable"
)

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
			return fmt.Errorf("%s: %w", Quoted(item), err)
		}
	}
	return nil
}

// Ports accepts lists of ports, and * alone if star is set.
func Ports(star bool) func(string) error {
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

// Networks accepts lists of networks and addresses, and * alone if star is set.
func Networks(star bool) func(string) error {
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

// Interfaces accepts lists of names of network interfaces, as the agent and the kernel take them.
func Interfaces(value string) error {
	return each(value, func(item string) error {
		if item == "+" || item == "." || item == ".." || len(item) > 15 || strings.ContainsAny(item, "/: \t\n\"'\\*") {
			return errors.New("want names of network interfaces with commas between; a + at the end matches any end")
		}
		return nil
	})
}

// Number accepts whole numbers from least to most.
func Number(least, most int) func(string) error {
	return func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
			return fmt.Errorf("%s is not a whole number from %d to %d", Quoted(value), least, most)
		}
		return nil
	}
}

// Truth accepts true and false, in every way that strconv.ParseBool does.
func Truth(value string) error {
	if _, err := strconv.ParseBool(value); err != nil {
		return fmt.Errorf("%s is neither true nor false", Quoted(value))
	}
	return nil
}

// OneOf accepts only the given words.
func OneOf(words ...string) func(string) error {
	return func(value string) error {
		for _, w := range words {
			if value == w {
				return nil
			}
		}
		return fmt.Errorf("%s is not one of %s", Quoted(value), strings.Join(words, ", "))
	}
}

// longestWord bounds an argument that an annotation names: a log level, an image.
const longestWord = 1024

// Plain accepts a word that may be an argument of the agent's: no space, no control character, and not the beginning of a flag.
func Plain(value string) error {
	switch {
	case value == "" || len(value) > longestWord:
		return fmt.Errorf("want a word of at most %d bytes", longestWord)
	case strings.HasPrefix(value, "-"):
		return fmt.Errorf("%s: a word does not begin with -", Quoted(value))
	case strings.ContainsAny(value, " \t\r\n$") || printable.Text(value, longestWord) != value:
		return fmt.Errorf("%s: want a word without spaces and $", Quoted(value))
	}
	return nil
}

// Quoted quotes a stranger's text, printable and short.
func Quoted(s string) string { return strconv.Quote(printable.Text(s, printable.Short)) }
