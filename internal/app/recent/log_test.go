package recent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestLastLines: the last lines are kept in order, each bounded, whatever the level of the program's own log is.
func TestLastLines(t *testing.T) {
	l := New()
	var own bytes.Buffer
	log := slog.New(l.Handler(slog.NewTextHandler(&own, &slog.HandlerOptions{Level: slog.LevelError})))
	for i := range mostLines + 3 {
		log.With("a", "b").WithGroup("g").Info("line", "n", i)
	}
	log.Debug("not kept")
	log.Error("both", "long", strings.Repeat("x", 2*mostLine))
	lines := strings.SplitAfter(l.Text(), "\n")
	if first, want := lines[0], "a=b g.n=4"; !strings.Contains(first, want) {
		t.Errorf("the first line is %q, want one with %q", first, want)
	}
	if last := lines[len(lines)-1]; len(lines) != mostLines || !strings.Contains(last, "msg=both") || len(last) != mostLine {
		t.Errorf("%d lines; the last has %d bytes", len(lines), len(last))
	}
	if got := own.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "both") {
		t.Errorf("the program's own log is %q", got)
	}
}
