package accesslog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The kinds of causes: what part of a line names them.
const (
	Flag      = "flag"      // %RESPONSE_FLAGS%
	Detail    = "detail"    // %RESPONSE_CODE_DETAILS%, %CONNECTION_TERMINATION_DETAILS%
	Reset     = "reset"     // the reason in the brackets of upstream_reset_before_response_started
	Close     = "close"     // the reason in the brackets of downstream_local_disconnect, %CONNECTION_TERMINATION_DETAILS%
	Transport = "transport" // %UPSTREAM_TRANSPORT_FAILURE_REASON%
	Answer    = "answer"    // %RESPONSE_CODE%, if nothing else says what the proxy answered
)

// Cause is a row of the table.
type Cause struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Long  string `json:"longName,omitempty"` // of a flag
	Place string `json:"place"`              // where to look: a name of Places
	Means string `json:"means"`
	Right string `json:"right"`          // what would be right
	Text  string `json:"text,omitempty"` // what the line adds: the text in brackets, or the whole reason
}

//go:embed causes.txt
var causesText string

// section is a part of the table.
type section struct {
	name   string
	kind   string
	causes []Cause
}

// kindOf returns the kind of the rows of a section.
var kindOf = map[string]string{
	"flags": Flag, "details": Detail, "http1": Detail, "http2": Detail, "http3": Detail, "filters": Detail, "resets": Reset,
	"closes": Close, "transport": Transport, "answers": Answer,
}

// table reads the table, once. A mistake in it is a mistake of the program.
var table = sync.OnceValue(func() []section {
	out, err := parseTable(causesText)
	if err != nil {
		panic(err)
	}
	return out
})

func parseTable(text string) (out []section, err error) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		name, isSection := strings.CutPrefix(line, "[")
		switch {
		case line == "" || line[0] == '#':
			continue
		case isSection && strings.HasSuffix(name, "]"):
			name = strings.TrimSuffix(name, "]")
			if kindOf[name] == "" {
				return nil, fmt.Errorf("line %d: there is no section %q", i+1, name)
			}
			out = append(out, section{name: name, kind: kindOf[name]})
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || len(out) == 0 {
			return nil, fmt.Errorf("line %d: want name | place | meaning | remedy below a section", i+1)
		}
		s := &out[len(out)-1]
		c := Cause{Kind: s.kind, Name: cells[0], Place: cells[1], Means: cells[2], Right: cells[3]}
		if c.Kind == Flag {
			c.Name, c.Long, _ = strings.Cut(c.Name, " ")
		}
		if _, known := PlaceCalled(c.Place); !known {
			return nil, fmt.Errorf("line %d: there is no place %q", i+1, c.Place)
		}
		s.causes = append(s.causes, c)
	}
	return out, nil
}

// Find returns the row of a name; false: the table has none.
func Find(kind, name string) (Cause, bool) {
	for _, s := range table() {
		if s.kind != kind {
			continue
		}
		if i := slices.IndexFunc(s.causes, func(c Cause) bool { return c.matches(name) }); i >= 0 {
			return s.causes[i], true
		}
	}
	return Cause{}, false
}

// matches reports whether a row is for a name. Envoy writes spaces in details as underscores.
func (c Cause) matches(name string) bool {
	if c.Kind == Flag {
		return name == c.Name || name == c.Long
	}
	name = strings.ReplaceAll(name, " ", "_")
	pattern, prefix := strings.CutSuffix(c.Name, "*")
	pattern, anywhere := strings.CutPrefix(pattern, "*")
	switch {
	case anywhere:
		return strings.Contains(strings.ToLower(name), strings.ToLower(pattern))
	case prefix:
		return strings.HasPrefix(name, pattern)
	}
	return name == pattern
}

// Names returns the names of a kind, in the order of the table.
func Names(kind string) (out []string) {
	for _, s := range table() {
		if s.kind == kind {
			for _, c := range s.causes {
				out = append(out, c.Name)
			}
		}
	}
	return out
}
