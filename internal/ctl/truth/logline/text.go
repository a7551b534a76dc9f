package logline

import (
	"fmt"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
	"fairway/internal/printable"
)

// Text returns an explanation for a person to read.
func (x Explanation) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) {
		for i, a := range args {
			if s, ok := a.(string); ok {
				args[i] = printable.Text(s, printable.Long)
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line("%s", x.title())
	switch {
	case x.Verdict == Application:
		line("  %s", "the application answered; what the status means is in its own log")
	case x.Verdict == Unknown:
		line("  %s", "the line names no cause that is known; docs/response-flags.md has those that are")
	}
	shown := map[string]bool{} // places
	for i, c := range x.Causes {
		if x.Verdict == Application || shown[c.Place] {
			continue
		}
		shown[c.Place] = true
		line("  %s: %s", c.Name, c.Means)
		if place, known := accesslog.PlaceCalled(c.Place); known && i == 0 && len(x.Findings) == 0 {
			line("    look at %s", place.Look)
		}
	}
	for _, f := range x.Findings {
		line("")
		if heading := f.heading(); heading != "" {
			line("  %s", heading)
		}
		line("    %s", f.Means)
		if f.Right != "" {
			line("    right: %s", f.Right)
		}
		if f.Problem != "" {
			line("    problem: %s", f.Problem)
		}
	}
	if len(x.Findings) == 0 && x.Verdict == Proxy {
		line("  right: %s", x.Causes[0].Right)
	}
	for i, n := range x.Notes {
		if i == 0 {
			line("")
		}
		line("  note: %s", n)
	}
	return b.String()
}

// title returns the result and the request, and the proxy that wrote the line.
func (x Explanation) title() string {
	e := x.Line
	parts := []string{}
	if e.Code > 0 {
		parts = append(parts, fmt.Sprint(e.Code))
	}
	parts = append(parts, strings.Join(e.Flags, ","), e.Details, e.Ended)
	out := strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
	request := strings.Join(strings.Fields(e.Method+" "+e.Authority+e.Path), " ")
	switch {
	case request != "":
		out += ": " + request
	case e.Cluster != "":
		out += ": a connection to " + e.Cluster
	}
	if x.Proxy != "" {
		out += fmt.Sprintf(" (%s, %s)", page.ShortName(x.Proxy), x.Side)
	}
	if x.Lines > 1 {
		out += fmt.Sprintf(", %d lines", x.Lines)
	}
	return strings.TrimPrefix(out, ": ")
}

// heading returns the object of a finding with its field and place.
func (f Finding) heading() string {
	if f.Kind == "" {
		return ""
	}
	out := f.Kind + " " + strings.TrimPrefix(f.Namespace+"/"+f.Name, "/")
	if f.Field != "" {
		out += "  " + f.Field
	}
	switch {
	case f.File != "" && f.Line > 0:
		out += fmt.Sprintf("  (%s:%d)", f.File, f.Line)
	case f.File != "":
		out += "  (" + f.File + ")"
	}
	return out
}
