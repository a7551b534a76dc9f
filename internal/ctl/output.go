package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"fairway/internal/printable"
)

// formats are the values of -o.
var formats = []string{"table", "json", "yaml", "short"}

// sheet is a verb's output: rows for a table, or the page's own value for programs.
type sheet struct {
	header []string
	rows   [][]string
	value  any      // the value that json and yaml print
	empty  string   // the text of a table without rows
	notes  []string // paragraphs below the table, safe to show
	wide   bool     // cells may be long: the user asked for them
}

// write prints s as a table, "json" or "yaml".
func (s sheet) write(w io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return writeValue(w, format, s.value)
	}
	return s.table(w)
}

func writeValue(w io.Writer, format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	text = printable.JSON(text)
	if format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		text = []byte(printable.Lines(string(text), 4*len(text))) // YAML has the characters themselves
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

func (s sheet) table(w io.Writer) error {
	lines := []string{s.empty}
	if len(s.rows) > 0 || s.empty == "" {
		lines = align(s.shown())
	}
	for _, n := range s.notes {
		lines = append(lines, "", n)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// shown returns the table with cells that are short, start no line and move no cursor.
func (s sheet) shown() [][]string {
	most := printable.Short
	if s.wide {
		most = printable.Long
	}
	out := [][]string{s.header}
	for _, row := range s.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable.Text(cell, most)
		}
		out = append(out, cells)
	}
	return out
}

// indented puts a bar before every line of a stranger's text, so that no line looks like a row of the table.
func indented(text string) string {
	return "  | " + strings.ReplaceAll(printable.Lines(text, printable.Long), "\n", "\n  | ")
}

// align pads cells to columns, which are as wide as their widest cell; no line ends in a space.
func align(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&b, "%-*s   ", widths[j], cell)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// wrap breaks text at spaces into lines of at most width characters; a longer word stays whole.
func wrap(text string, width int) []string {
	var lines []string
	var line []string
	used := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		if len(line) > 0 && used+len(line)+n > width {
			lines = append(lines, strings.Join(line, " "))
			line, used = nil, 0
		}
		line = append(line, word)
		used += n
	}
	return append(lines, strings.Join(line, " "))
}

func knownFormat(format string) error {
	if slices.Contains(formats, format) {
		return nil
	}
	return fmt.Errorf("-o %s: want table, json or yaml", format)
}
