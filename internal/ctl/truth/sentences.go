package truth

import (
	"fmt"
	"strings"

	"fairway/internal/ctl/output"
	"fairway/internal/printable"
)

// sentences is an answer in lines. Texts of strangers start no line and move no cursor.
type sentences struct{ strings.Builder }

// line writes a line. Texts among the arguments are made fit to print.
func (s *sentences) line(format string, args ...any) {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = printable.Text(text, printable.Long)
		}
	}
	fmt.Fprintf(s, format+"\n", args...)
}

// quote writes a stranger's text in lines of its own, if there is any.
func (s *sentences) quote(text string) {
	if text != "" {
		fmt.Fprintln(s, output.Indented(text))
	}
}
