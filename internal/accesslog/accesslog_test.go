package accesslog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/golden"
)

// TestPage: docs/response-flags.md is made of the table.
func TestPage(t *testing.T) { golden.File(t, "../../docs/response-flags.md", Page()) }

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	rows := 0
	for _, s := range table() {
		if titles[s.name] == "" {
			t.Errorf("section %s has no title", s.name)
		}
		for _, c := range s.causes {
			rows++
			if seen[c.Kind+c.Name] {
				t.Errorf("%s %s has two rows", c.Kind, c.Name)
			}
			seen[c.Kind+c.Name] = true
			for _, cell := range []string{c.Means, c.Right} {
				if len(cell) > 120 || !strings.HasSuffix(cell, ".") {
					t.Errorf("%s %s: %q: want a sentence of at most 120 characters", c.Kind, c.Name, cell)
				}
			}
			if c.Kind == Flag && c.Long == "" {
				t.Errorf("flag %s has no long name", c.Name)
			}
			name := strings.Trim(c.Name, "*")
			if got, found := Find(c.Kind, name); !found || got.Name != c.Name && !strings.Contains(name, strings.Trim(got.Name, "*")) {
				t.Errorf("%s %s is found as %q", c.Kind, c.Name, got.Name)
			}
		}
	}
	for _, p := range places {
		if !slices.ContainsFunc(table(), func(s section) bool {
			return slices.ContainsFunc(s.causes, func(c Cause) bool { return c.Place == p.Name })
		}) {
			t.Errorf("no row is at place %s", p.Name)
		}
	}
	if rows < 180 {
		t.Errorf("only %d rows", rows)
	}
	for text, want := range map[string]string{
		"a | b":                           "section",
		"[nothing]":                       "section",
		"[flags]\nUH | endpoints | x":     "want name",
		"[flags]\nUH X | nowhere | x | y": "place",
	} {
		if _, err := parseTable(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestParse reads the lines of the archive. The name of a file is what it shows; a format is given before a line of dashes.
func TestParse(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		for i, f := range a.Files {
			line, ok := strings.CutPrefix(f.Name, "$ ")
			if !ok {
				continue
			}
			var given *Format
			if format, rest, has := strings.Cut(line, " <= "); has {
				var err error
				if given, err = NewFormat(format); err != nil {
					a.ResultAt(t, i, err.Error()+"\n")
					continue
				}
				line = rest
			}
			a.ResultAt(t, i, describe(line, given))
		}
	})
}

func describe(line string, given *Format) string {
	e, err := Parse(line, given)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %q %q %q %q = %d %q %q %q %q\n", e.Format, e.Method, e.Authority, e.Path, e.Protocol, e.Code, e.Flags, e.Details,
		e.Ended, e.Transport)
	fmt.Fprintf(&b, "route %q cluster %q host %q at %q from %q time %q\n", e.Route, e.Cluster, e.UpstreamHost, e.DownstreamLocal,
		e.DownstreamRemote, e.Time)
	fmt.Fprintf(&b, "by the application: %t\n", e.ByApplication())
	for _, c := range e.Causes() {
		fmt.Fprintf(&b, "%s %s (%s) %q: %s\n", c.Kind, c.Name, c.Place, c.Text, c.Means)
	}
	return b.String()
}

func TestParseBounds(t *testing.T) {
	if _, err := Parse(strings.Repeat("x", MostLine+1), nil); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a line that is too long: %v", err)
	}
	if _, err := Parse(strings.Repeat("[{", MostLine/2), nil); !errors.Is(err, ErrNone) {
		t.Errorf("brackets: %v", err)
	}
	for _, format := range []string{
		strings.Repeat("x", mostFormat+1), "plain", "\xff%RESPONSE_CODE%", "{", strings.Repeat("%PATH%", mostOperators+1),
		strings.Repeat(`{"a":`, 10) + `"%PATH%"` + strings.Repeat("}", 10),
	} {
		if _, err := NewFormat(format); err == nil {
			t.Errorf("format %.20q… is accepted", format)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"response_code":404,"response_flags":"NR"}`, "")
	f.Add(`[t] "GET / HTTP/1.1" 503 UH no_healthy_upstream - "-" 0 19 0 - "-" "-" "-" "a" "-" outbound|80||a - - - - -`, "")
	f.Add("a 503", "%REQ(:METHOD)% %RESPONSE_CODE%")
	f.Add(`{"a":{"b":"503"}}`, `{"a":{"b":"%RESPONSE_CODE%"}}`)
	f.Fuzz(func(t *testing.T, line, format string) {
		given, err := NewFormat(format)
		if err != nil {
			given = nil
		}
		e, err := Parse(line, given)
		if err != nil {
			return
		}
		if !e.says() || len(e.Flags) > mostFlags || e.Code < 0 || e.Code > 999 {
			t.Errorf("%q: %+v", line, e)
		}
		for _, c := range e.Causes() {
			if c.Means == "" || c.Right == "" {
				t.Errorf("%q: %+v", line, c)
			}
		}
	})
}
