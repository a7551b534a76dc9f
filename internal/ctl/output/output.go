// Package output prints what verbs of pilotctl found, for people as a table and for programs as JSON or YAML.
// Text of strangers starts no line and moves no cursor.
package output

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

// Failure is an error of a command with a right command line: pilotctl exits with 1.
type Failure struct{ error }

// Fail makes a Failure of an error.
func Fail(err error) error { return Failure{err} }

// Unwrap returns the error itself.
func (f Failure) Unwrap() error { return f.error }

// NoAnswer is an error of a command that could not find out what it was asked: pilotctl exits with 2.
type NoAnswer struct{ error }

// CannotSay makes a NoAnswer of an error.
func CannotSay(err error) error { return NoAnswer{err} }

// Unwrap returns the error itself.
func (n NoAnswer) Unwrap() error { return n.error }

// Sheet is a verb's output: rows for a table, or the page's own value for programs.
type Sheet struct {
	Header []string
	Rows   [][]string
	Value  any      // the value that json and yaml print
	Empty  string   // the text of a table without rows
	Notes  []string // paragraphs below the table, safe to show
	Wide   bool     // cells may be long: the user asked for them
}

// Write prints s as a table, "json" or "yaml".
func (s Sheet) Write(w io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return WriteValue(w, format, s.Value)
	}
	return s.Table(w)
}

// WriteValue prints a value as "json" or "yaml".
func WriteValue(w io.Writer, format string, value any) error {
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

// Table prints s as a table.
func (s Sheet) Table(w io.Writer) error {
	lines := []string{s.Empty}
	if len(s.Rows) > 0 || s.Empty == "" {
		lines = align(s.shown(), painterOf(w))
	}
	for _, n := range s.Notes {
		lines = append(lines, "", n)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// shown returns the table with cells that are short, start no line and move no cursor.
func (s Sheet) shown() [][]string {
	most := printable.Short
	if s.Wide {
		most = printable.Long
	}
	out := [][]string{s.Header}
	for _, row := range s.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable.Text(cell, most)
		}
		out = append(out, cells)
	}
	return out
}

// Indented puts a bar before every line of a stranger's text, so that no line looks like a row of the table.
func Indented(text string) string {
	return "  | " + strings.ReplaceAll(printable.Lines(text, printable.Long), "\n", "\n  | ")
}

// align pads cells to columns, which are as wide as their widest cell; no line ends in a space.
func align(rows [][]string, paint painter) []string {
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
			text := paint.word(cell)
			if i == 0 {
				text = paint.paint(bold, cell)
			}
			b.WriteString(text + strings.Repeat(" ", widths[j]-len([]rune(cell))+3))
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

// KnownFormat returns an error if format is not a value of -o.
func KnownFormat(format string) error {
	if slices.Contains(formats, format) {
		return nil
	}
	return fmt.Errorf("-o %s: want table, json or yaml", format)
}

// OrDash returns a cell of a table: a dash if it would be empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
