package main

import (
	"fmt"
	"strconv"
	"strings"
)

// title begins the table of the page, which ends before the first line that is no row.
const title = "| change | rooms | files | functions | lines that ran | lines of the files |"

// table returns the table of the page: a row for each way, and one for its engine and its decoder.
func table(ways []way) string {
	var b strings.Builder
	b.WriteString(title + "\n|---|---|---|---|---|---|\n")
	for _, w := range ways {
		for _, p := range parts {
			f := w.parts[p]
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", label(w, p), f.Rooms, f.Files, f.Functions, f.Lines, f.Whole)
		}
	}
	return b.String()
}

func label(w way, part string) string {
	if part == own {
		return w.name
	}
	return "· its " + part
}

// replace puts a table in the place of the page's.
func replace(page, with string) (string, error) {
	before, rest, ok := strings.Cut(page, title)
	if !ok {
		return "", fmt.Errorf("the page has no table that begins with %q", title)
	}
	for strings.HasPrefix(rest, "\n|") {
		_, rest, _ = strings.Cut(rest[1:], "\n")
		rest = "\n" + rest
	}
	return before + strings.TrimSuffix(with, "\n") + rest, nil
}

// A figure may grow by a twentieth, a small one by a few, because a branch may run in each round by chance.
const (
	share = 20
	few   = 2
)

// grown lists the figures that are larger than the page's by more than is allowed.
func grown(page string, ways []way) (found []string, err error) {
	_, rest, ok := strings.Cut(page, title)
	if !ok {
		return nil, fmt.Errorf("the page has no table that begins with %q", title)
	}
	columns := strings.Split(strings.Trim(title, "| "), " | ")
	written := strings.Split(strings.TrimPrefix(rest, "\n"), "\n")[1:]
	for _, w := range ways {
		for _, p := range parts {
			var row []string
			if len(written) > 0 {
				row, written = strings.Split(strings.Trim(written[0], "| "), " | "), written[1:]
			}
			if len(row) != len(columns) || row[0] != label(w, p) {
				return nil, fmt.Errorf("the page's row of %q, %s, is %q", w.name, p, row)
			}
			f := w.parts[p]
			for i, now := range []int{f.Rooms, f.Files, f.Functions, f.Lines, f.Whole} {
				was, err := strconv.Atoi(row[i+1])
				if err != nil {
					return nil, fmt.Errorf("the page's row of %q, %s: %w", w.name, p, err)
				}
				if now-was > max(was/share, few) {
					found = append(found, fmt.Sprintf("%s, %s: %s: %d, which were %d", w.name, p, columns[i+1], now, was))
				}
			}
		}
	}
	return found, nil
}
