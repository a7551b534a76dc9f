package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Value returns the value of a name in a text; false if the name has none.
type Value func(name string) (string, bool)

// Pairs returns the values of names, given in turn: "port", 8080, "host", "shop.test".
func Pairs(pairs ...any) Value {
	return func(name string) (string, bool) {
		for pair := range slices.Chunk(pairs, 2) {
			if pair[0] == name {
				return fmt.Sprint(pair[1]), true
			}
		}
		return "", false
	}
}

// Text returns a file below the folder testdata, or a section of an archive there ("case.txtar:rules"), with values in the place of names,
// as Fill puts them.
func Text(t testing.TB, name string, values ...Value) string {
	t.Helper()
	file, section, archived := strings.Cut(name, ":")
	content, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if !archived {
		return Fill(t, name, string(content), values...)
	}
	var sections []string
	for _, f := range txtar.Parse(content).Files {
		if f.Name == section {
			return Fill(t, name, string(f.Data), values...)
		}
		sections = append(sections, f.Name)
	}
	t.Fatalf("%s has no section %q, but %q", file, section, sections)
	return ""
}

// placeholder is a name in a text that has no other name in it.
var placeholder = regexp.MustCompile(`\$\{[^${}]*\}`)

// Fill replaces each ${NAME} of a text, called title in messages, by the value of the first of values that knows the
// name. Names may be made of others: ${ip:${app}}. A name that none of the values knows fails the test.
func Fill(t testing.TB, title, text string, values ...Value) string {
	t.Helper()
	for placeholder.MatchString(text) {
		text = placeholder.ReplaceAllStringFunc(text, func(found string) string {
			name := found[2 : len(found)-1]
			for _, value := range values {
				if s, known := value(name); known {
					return s
				}
			}
			t.Fatalf("%s: the test gives %s no value", title, found)
			return ""
		})
	}
	return text
}
