package ctl_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"fairway/internal/ctl/truth/logline"
	"fairway/internal/golden"
)

// TestDocsShowOutput: each block of README and docs/truth.md that begins with explain --log has the output of the golden test.
func TestDocsShowOutput(t *testing.T) {
	archive := golden.Read(t, "testdata/log.txtar")
	for page, indent := range map[string]string{"../../README.md": "", "../../docs/truth.md": ""} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for block := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n"+indent, "\n"), "```\n") {
			command, output, ok := strings.Cut(block, "\n")
			if !ok || !strings.HasPrefix(command, "$ pilotctl explain --log ") {
				continue
			}
			shown++
			want, _, _ := strings.Cut(string(archive.File(command)), "exit code")
			if output != want {
				t.Errorf("%s shows for %s\n%s\nand it prints\n%s", page, command, output, want)
			}
		}
		if shown == 0 {
			t.Errorf("%s shows no explain --log", page)
		}
	}
}

// TestReadmeShowsAPlan: each line that README shows of a plan is one of the golden test's, in that order.
func TestReadmeShowsAPlan(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```\n$ pilotctl plan -f reviews.yaml\n")
	block, _, ok := strings.Cut(block, "```")
	left := string(golden.Read(t, "testdata/plan.txtar").File("$ pilotctl plan -f files/reviews.yaml"))
	if !ok || left == "" {
		t.Fatal("there is no plan")
	}
	for line := range strings.Lines(block) {
		var found bool
		if _, left, found = strings.Cut(left, line); !found {
			t.Fatalf("README shows a line that is not printed, or not there:\n%s", line)
		}
	}
}

// TestExplanationIsDocumented: docs/truth.md has each field of the JSON of explain --log.
func TestExplanationIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/truth.md")
	if err != nil {
		t.Fatal(err)
	}
	var look func(reflect.Type)
	look = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Slice:
			look(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" || !strings.Contains(string(text), "`"+name+"`") {
					t.Errorf("docs/truth.md does not name %s of %s", name, typ)
				}
				look(f.Type)
			}
		}
	}
	look(reflect.TypeFor[logline.Explanation]())
}
