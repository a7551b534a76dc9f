package document

import (
	"fmt"
	"testing"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "[]",
		"# only a comment\n---\n\n---\n": "[]",
		"a: 1\n---\nb: 2":                `[1:"a: 1\n" 3:"b: 2"]`,
		"\ufeff\n# c\na: 1\n...\n%YAML 1.1\n---\n\nb: 2\n---\n": `[3:"a: 1\n" 8:"b: 2\n"]`,
		"--- # first\na: 1\n--- {b: 2}\n--- |\n x\n":            `[2:"a: 1\n" 3:"--- {b: 2}\n" 4:"--- |\n x\n"]`,
		"a: |\n  ---\n  x\n----\n---x\n":                        `[1:"a: |\n  ---\n  x\n----\n---x\n"]`,
		"a: 1\r\n---\r\nb: 2\r\n":                               `[1:"a: 1\r\n" 3:"b: 2\r\n"]`,
	} {
		got := []string{}
		for _, d := range Split("f", []byte(text)) {
			got = append(got, fmt.Sprintf("%d:%q", d.Line, d.Text))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q\n got %v\nwant %s", text, got, want)
		}
	}
}
