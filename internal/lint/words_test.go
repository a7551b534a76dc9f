package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hard are the patterns of English that readers have to read twice.
var hard = []struct {
	name    string
	pattern *regexp.Regexp
	instead string
}{
	{"begins", regexp.MustCompile(`^(Of|Where|What|Who|By|Whom|Whose)\b`), "begin with the subject, or with if or when"},
	{"of which", regexp.MustCompile(`\b(of|by|to|from|in|with|for|at|on) which\b`), "make it two sentences"},
	{"nobody", regexp.MustCompile(`(?i)\b(nobody|whoever|all else|anybody|none that|of those that|what else)\b`), "name the one who does it"},
	{"whom", regexp.MustCompile(`(?i)\b(whom|whose)\b`), "use client, server, or of the"},
	{"told", regexp.MustCompile(`(?i)\b(is|are|was|were|be|been) (told|said|heard)\b`), "use reported, returned, received"},
	{"what is", regexp.MustCompile(`(?i)\bwhat (is|are|was|were|comes|came|goes|stands)\b`), "use the noun"},
	{"stands", regexp.MustCompile(`(?i)\b(stands?|lies over|goes first|as long as it is|taken at its word)\b`), "use is, has precedence, while"},
}

// mostHard are how many sentences of 10,000 may have each pattern, in the order of hard. The numbers may only fall.
var mostHard = map[string][7]int{
	"comments": {14, 38, 5, 12, 2, 23, 4},
	"docs":     {2, 6, 11, 15, 10, 43, 7},
	"messages": {0, 0, 0, 0, 0, 0, 0},
}

// slack is by how many of 10,000 sentences a share may differ from its number. If it is further below, the number has to fall.
const slack = 5

// Comments, docs and messages are for readers who learned English as a second language. Words that are hard for them get fewer, not more.
func TestEnglishIsPlain(t *testing.T) {
	counted := map[string]*share{"comments": {}, "docs": {}, "messages": {}}
	for _, f := range repository(t) {
		for _, group := range f.ast.Comments {
			counted["comments"].text(group.Text())
		}
		if f.isTest() || strings.HasPrefix(f.path, "test/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Count(text, " ") >= 3 {
					counted["messages"].text(text)
				}
			}
			return true
		})
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	below = slices.DeleteFunc(below, func(page string) bool { // made from the programs
		return strings.HasSuffix(page, "reference/flags.md") || strings.HasSuffix(page, "reference/metrics.md")
	})
	for _, page := range append(append(pages, below...), "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n\n", "|"), "|") {
			counted["docs"].text(part)
		}
	}
	for of, s := range counted {
		if s.sentences < 1000 {
			t.Errorf("only %d sentences of %s were found", s.sentences, of)
		}
		for i, h := range hard {
			share, most := 10_000*len(s.found[i])/max(s.sentences, 1), mostHard[of][i]
			switch {
			case share > most+slack:
				t.Errorf("%s: %d of 10,000 sentences have %q, at most %d may: %s. One of them: %q",
					of, share, h.name, most, h.instead, s.found[i][len(s.found[i])-1])
			case share < most-slack:
				t.Errorf("%s: %d of 10,000 sentences have %q: lower its number in mostHard", of, share, h.name)
			}
		}
	}
	if testing.Verbose() {
		for of, s := range counted {
			line := fmt.Sprintf("%s: %d sentences:", of, s.sentences)
			for i, h := range hard {
				line += fmt.Sprintf(" %s %d of 10,000;", h.name, 10_000*len(s.found[i])/s.sentences)
			}
			t.Log(line)
		}
	}
}

// share counts sentences.
type share struct {
	sentences int
	found     [7][]string // sentences that have a pattern
}

// end is where a sentence ends.
var end = regexp.MustCompile(`[.:;?!]\s+`)

// text counts the sentences of a text.
func (s *share) text(text string) {
	for _, sentence := range end.Split(strings.ReplaceAll(text, "\n", " "), -1) {
		if sentence = strings.TrimSpace(sentence); sentence == "" {
			continue
		}
		s.sentences++
		for i, h := range hard {
			if h.pattern.MatchString(sentence) {
				s.found[i] = append(s.found[i], sentence)
			}
		}
	}
}
