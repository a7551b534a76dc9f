// Package exposition puts metrics of several programs into one Prometheus text exposition.
//
// A family may come once only, and what one program writes must not spoil the others: the first program that has a
// family keeps it, lines that are none are left out. Nothing is held in memory but names and, where metrics are given
// other labels, the samples of one family: two that come out alike are one. The package must not know where metrics
// come from.
package exposition

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Merger writes one exposition. It is not for several goroutines.
type Merger struct {
	out      *bufio.Writer
	owner    map[string]int // family → number of the source that has it
	sources  int
	dropped  int
	family   string // of the last # TYPE or # HELP
	keepNext bool   // whether samples of family are written
	held     sums   // rewritten samples of family
}

// New gives a Merger that writes to w. Call Flush at the end.
func New(w io.Writer) *Merger { return &Merger{out: bufio.NewWriter(w), owner: map[string]int{}} }

// maxLine is the longest line that is read; a sample has names, labels and a number.
const maxLine = 1 << 20

// Rewrite gives a metric another name, and a sample other labels: rest is what follows the name, `{a="b"} 1` of a
// sample, ` counter` of a header.
type Rewrite func(name, rest string) (newName, newRest string)

// Add copies what a source wrote, each metric as rewrite gives it (nil: as it is). It fails where reading or writing
// does; what came before is written.
func (m *Merger) Add(from io.Reader, rewrite Rewrite) error {
	m.sources++
	m.family = ""
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	defer m.held.release(m.out)
	for lines.Scan() {
		m.line(strings.TrimRight(lines.Text(), "\r"), rewrite)
	}
	return lines.Err()
}

// Dropped is how many lines were left out, because another source has their family or because they are no metrics.
func (m *Merger) Dropped() int { return m.dropped }

// Flush ends the exposition.
func (m *Merger) Flush() error { return m.out.Flush() }

func (m *Merger) line(line string, rewrite Rewrite) {
	if line == "" || line == "# EOF" {
		return
	}
	head, name, rest, ok := split(line)
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
	if !m.keep(head != "", name) {
		m.dropped++
		return
	}
	if rewritten && m.held.add(name, rest) {
		return
	}
	m.held.release(m.out)
	fmt.Fprint(m.out, head, name, rest, "\n") // Flush tells of errors
}

// split cuts "# TYPE name counter" into head, name and rest, and a sample into name and rest.
func split(line string) (head, name, rest string, ok bool) {
	if strings.HasPrefix(line, "#") {
		for _, word := range []string{"# TYPE ", "# HELP "} {
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

// keep says whether a line of the current source is written. Samples of a histogram have longer names than their family.
func (m *Merger) keep(header bool, name string) bool {
	if !header && m.family != "" && strings.HasPrefix(name, m.family) {
		return m.keepNext
	}
	owner, taken := m.owner[name]
	keep := !taken || owner == m.sources
	if keep {
		m.owner[name] = m.sources
	}
	if header {
		m.family, m.keepNext = name, keep
	} else {
		m.family = ""
	}
	return keep
}
