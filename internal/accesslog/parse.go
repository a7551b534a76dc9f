package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MostLine is the most bytes that a line may have.
const MostLine = 32 << 10

// ErrNone is the error of a line that is of no access log.
var ErrNone = errors.New("this is no line of an access log: want Envoy's default format, Istio's, or a JSON object with response_code or " +
	"response_flags; for lines of another format give it with --log-format, as accessLogFormat of the mesh configuration has it")

// Parse reads a line. If a format is given, lines of the usual formats are read too.
func Parse(line string, given *Format) (Entry, error) {
	line = strings.TrimSpace(line)
	switch {
	case line == "":
		return Entry{}, ErrNone
	case len(line) > MostLine:
		return Entry{}, fmt.Errorf("the line has %d bytes, at most %d may be", len(line), MostLine)
	case !utf8.ValidString(line):
		line = strings.ToValidUTF8(line, "\uFFFD")
	}
	for _, at := range beginnings(line) {
		if e, ok := parse(line[at:], given); ok {
			return e, nil
		}
	}
	return Entry{}, ErrNone
}

// beginnings returns where a line may begin: programs that collect logs put their own words before it.
func beginnings(text string) []int {
	out := []int{0}
	for at, r := range text {
		if at > 0 && (r == '[' || r == '{') {
			if out = append(out, at); len(out) > mostBeginnings {
				break
			}
		}
	}
	return out
}

// mostBeginnings is how many of them are tried.
const mostBeginnings = 4

func parse(text string, given *Format) (Entry, bool) {
	if given != nil {
		e := Entry{Format: given.name}
		if given.read(text, &e) && e.says() {
			return e, true
		}
	}
	if text[0] == '{' {
		e := Entry{Format: "JSON"}
		return e, readKeys(text, &e) && e.says()
	}
	for _, f := range known {
		e := Entry{Format: f.name}
		if f.read(text, &e) && e.says() {
			return e, true
		}
	}
	return Entry{}, false
}
