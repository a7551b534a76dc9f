package ctl_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"fairway/internal/ctl"
)

var named = regexp.MustCompile("`pilotctl ([a-z][a-z -]*)`")

// TestVerbsOfDocs: each verb that docs/reference/pilotctl.md names in its table is one of the program, and each of the program's verbs of
// proxy-config is in the table.
func TestVerbsOfDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/pilotctl.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "\n## ")
	root, verbs := ctl.Command("test"), 0
	for _, m := range named.FindAllStringSubmatch(table, -1) {
		verbs++
		words := strings.Fields(m[1])
		if found, left, err := root.Find(words); err != nil || len(left) > 0 || found == root {
			t.Errorf("docs/reference/pilotctl.md names `pilotctl %s`, which pilotctl does not have: %v", m[1], err)
		}
	}
	if verbs < 25 {
		t.Errorf("only %d verbs were found", verbs)
	}
	config, _, err := root.Find([]string{"proxy-config"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Commands() {
		if !strings.Contains(table, "`pilotctl proxy-config "+c.Name()+"`") {
			t.Errorf("docs/reference/pilotctl.md does not name proxy-config %s", c.Name())
		}
	}
}
