package output

import (
	"fmt"
	"io"
	"strings"

	"fairway/internal/admin/page"
	"fairway/internal/printable"
)

// Problems are printed as paragraphs: sentences and paths do not fit columns. The text below the heading is indented by indent, and at
// most measure wide.
const (
	indent  = 4
	measure = 100
)

// Problems prints problems with their places and fixes, and how many there are.
func Problems(w io.Writer, problems []page.ProblemInfo) error {
	var b strings.Builder
	paint := painterOf(w)
	for _, p := range problems {
		fmt.Fprintf(&b, "%s%s: %s\n", printable.Text(place(p), printable.Long), paint.word(printable.Text(p.Severity, printable.Short)),
			paint.paint(bold, printable.Text(heading(p), 4*printable.Short)))
		paragraph(&b, "", p.Message)
		paragraph(&b, "fix: ", p.Fix)
		fmt.Fprintln(&b)
	}
	fmt.Fprintln(&b, summary(problems))
	_, err := io.WriteString(w, b.String())
	return err
}

// heading returns where a problem is, and its kind: object, field and the kind of mistake.
func heading(p page.ProblemInfo) string {
	s := p.Kind
	if p.Name != "" {
		s += " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
	}
	if p.Field != "" {
		s += "  " + p.Field
	}
	return s + "  (" + p.Code + ")"
}

// place returns the beginning of a problem's line, as compilers write it; empty: the problem is in no file.
func place(p page.ProblemInfo) string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File + ": "
	}
	return fmt.Sprintf("%s:%d: ", p.File, p.Line)
}

// paragraph writes a text below the heading, if it is not empty; further lines align with its first.
func paragraph(b *strings.Builder, label, text string) {
	if text == "" {
		return
	}
	for i, line := range wrap(printable.Lines(text, printable.Long), measure-indent-len(label)) {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		fmt.Fprintf(b, "%*s%s%s\n", indent, "", label, line)
	}
}

// summary returns the number of problems of each severity, the worst first.
func summary(problems []page.ProblemInfo) string {
	if len(problems) == 0 {
		return "no problems"
	}
	counts := map[string]int{}
	for _, p := range problems {
		counts[p.Severity]++
	}
	var parts []string
	for _, s := range []struct{ severity, one, many string }{
		{"error", "error", "errors"},
		{"warning", "warning", "warnings"},
		{"info", "remark", "remarks"},
	} {
		switch n := counts[s.severity]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+s.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, s.many))
		}
	}
	return strings.Join(parts, ", ")
}
