// Package exposition puts metrics of several programs into one Prometheus text exposition.
//
// A family may appear only once, and errors of one program must not spoil the others: the first program that has a family keeps it,
// and invalid lines are left out. Only names are held in memory and, if labels are rewritten, the samples of one family: two that
// become equal are one. The package must not know where metrics come from.
package exposition

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"strings"
)

// Merger writes one exposition. It is not for several goroutines.
type Merger struct {
	out      *bufio.Writer
	families map[string]*family
	sources  int
	dropped  int
	last     *family           // of the last # TYPE or # HELP
	called   map[string]string // in OpenMetrics: family names in the text format; empty: it has no such family
	samples  sums              // rewritten samples of the last family
}

// family is what the page has of a family of metrics.
type family struct {
	name   string
	source int // the number of the source that has it
	kind   string
	helped bool
	begun  bool // samples have come
}

// New gives a Merger that writes to w. Call Flush at the end.
func New(w io.Writer) *Merger {
	return &Merger{out: bufio.NewWriter(w), families: map[string]*family{}}
}

// maxLine is the longest line that is read; a sample has names, labels and a number.
const maxLine = 1 << 20

// Rewrite changes the name of a metric, and the labels of a sample. rest is the text after the name: `{a="b"} 1` of a sample, `
// counter` of a header.
type Rewrite func(name, rest string) (newName, newRest string)

// Format is the format of a source.
type Format bool

const (
	// Text is the text format of Prometheus, version 0.0.4. The page is written in it.
	Text Format = false
	// OpenMetrics is the text format of OpenMetrics, which is converted: exemplars and units are lost.
	OpenMetrics Format = true
)

// FormatOf returns the format that a Content-Type names.
func FormatOf(contentType string) Format {
	kind, _, _ := mime.ParseMediaType(contentType)
	return Format(kind == "application/openmetrics-text")
}

// Add copies what a source wrote in a format, with each metric changed by rewrite (nil: unchanged). It fails if reading or writing
// fails; what came before is written.
func (m *Merger) Add(from io.Reader, format Format, rewrite Rewrite) error {
	m.sources++
	m.last, m.called = nil, nil
	if format == OpenMetrics {
		m.called = map[string]string{}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	defer m.samples.release(m.out)
	for lines.Scan() {
		m.line(strings.ToValidUTF8(strings.TrimRight(lines.Text(), "\r"), "\uFFFD"), rewrite)
	}
	return lines.Err()
}

// Dropped returns how many lines were left out, because another source has their family or because they are not metrics.
func (m *Merger) Dropped() int { return m.dropped }

// Flush ends the exposition.
func (m *Merger) Flush() error { return m.out.Flush() }

func (m *Merger) line(line string, rewrite Rewrite) {
	if line == "" || line == "# EOF" {
		return
	}
	head, name, rest, ok := split(line)
	if ok && head == "" {
		rest, ok = cleanSample(rest, m.called != nil)
	}
	if ok && head != "" && m.called != nil {
		name, rest, ok = m.converted(head, name, rest)
	}
	if !ok {
		if !strings.HasPrefix(line, "#") { // a comment is lost without a word
			m.dropped++
		}
		return
	}
	rewritten := false
	if rewrite != nil {
		was := name
		name, rest = rewrite(name, rest)
		rewritten = name != was && head == ""
	}
	if !m.keep(head, name, rest) {
		m.dropped++
		return
	}
	if rewritten && m.samples.add(name, rest) {
		return
	}
	m.samples.release(m.out)
	fmt.Fprint(m.out, head, name, rest, "\n") // Flush tells of errors
}

// converted returns a header of OpenMetrics in the text format, where a family has the name of its samples. It reports false if the
// text format has no such header.
func (m *Merger) converted(head, name, rest string) (string, string, bool) {
	if head == helpHeader {
		to, known := m.called[name]
		return to, rest, known && to != ""
	}
	to, kind := name, " gauge"
	switch rest {
	case " counter":
		to, kind = strings.TrimSuffix(name, "_total")+"_total", rest
	case " info":
		to = strings.TrimSuffix(name, "_info") + "_info"
	case " stateset":
	case " gauge", " histogram", " summary":
		kind = rest
	case " gaugehistogram":
		to = ""
	default:
		kind = " untyped"
	}
	m.called[name] = to
	return to, kind, to != ""
}

const typeHeader, helpHeader = "# TYPE ", "# HELP "

// split cuts "# TYPE name counter" into head, name and rest, and a sample into name and rest.
func split(line string) (head, name, rest string, ok bool) {
	if strings.HasPrefix(line, "#") {
		for _, word := range []string{typeHeader, helpHeader} {
			if after, found := strings.CutPrefix(line, word); found {
				name, rest, _ = strings.Cut(after, " ")
				return word, name, " " + rest, isName(name)
			}
		}
		return "", "", "", false
	}
	i := strings.IndexAny(line, "{ ")
	if i < 0 {
		return "", "", "", false
	}
	return "", line[:i], line[i:], isName(line[:i])
}

func isName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c == ':' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// keep reports whether a line of the current source is written: the first source that has a family keeps it, and a family has one type,
// which comes before its samples, and one help.
func (m *Merger) keep(head, name, rest string) bool {
	f := m.last
	if head != "" || f == nil || !f.has(name) {
		f = m.families[name]
		if f == nil {
			f = &family{name: name, source: m.sources}
			m.families[name] = f
		}
	}
	if f.source != m.sources {
		m.last = f
		return false
	}
	switch head {
	case typeHeader:
		if f.kind != "" || f.begun || !isKind(rest) {
			return false
		}
		m.last, f.kind = f, rest
	case helpHeader:
		if f.helped {
			return false
		}
		m.last, f.helped = f, true
	default:
		f.begun = true
		if m.families[name] == nil { // a sample of a histogram has a name of its own, which is taken too
			m.families[name] = f
		}
	}
	return true
}

// has reports whether a sample of a name belongs to the family: those of histograms and summaries have longer names.
func (f *family) has(name string) bool {
	suffix, is := strings.CutPrefix(name, f.name)
	switch suffix {
	case "":
		return is
	case "_sum", "_count":
		return is && (f.kind == " histogram" || f.kind == " summary")
	case "_bucket":
		return is && f.kind == " histogram"
	}
	return false
}

func isKind(rest string) bool {
	switch rest {
	case " counter", " gauge", " histogram", " summary", " untyped":
		return true
	}
	return false
}
