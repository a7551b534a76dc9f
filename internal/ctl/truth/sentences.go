package truth

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/output"
	"fairway/internal/printable"
)

// show prints an answer in the session's format: its value for programs, or text for people.
func show(cmd *cobra.Command, s Session, value any, text func(io.Writer) error) error {
	if f := s.Format(); f == "json" || f == "yaml" {
		return output.WriteValue(cmd.OutOrStdout(), f, value)
	}
	return text(cmd.OutOrStdout())
}

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
