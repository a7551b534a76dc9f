package output

import (
	"io"
	"os"

	"golang.org/x/term"
)

// colour is a code of ANSI terminals; empty: the terminal's own.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	bold   colour = "1"
)

// words that have a colour where they are a whole cell, or a severity.
var coloured = map[string]colour{
	"error": red, "warning": yellow,
	"SYNCED": green, "STALE": yellow, "NOT COMPARED": yellow, "REJECTED": red,
	"HEALTHY": green, "UNHEALTHY": red, "DRAINING": yellow, "FAILED": red,
}

// painter colours words on terminals.
type painter bool

// painterOf returns a painter for an output. It colours only on a terminal that knows colours, and only if the user did not forbid it
// (no-color.org).
func painterOf(w io.Writer) painter {
	f, is := w.(*os.File)
	if !is || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return false
	}
	return painter(term.IsTerminal(int(f.Fd())))
}

func (p painter) paint(c colour, text string) string {
	if !bool(p) || c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// word paints a word that has a colour.
func (p painter) word(text string) string { return p.paint(coloured[text], text) }
