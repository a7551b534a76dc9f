package status

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

var rule = mesh.ObjectRef{Kind: "VirtualService", Namespace: "shop", Name: "v"}

func problem(of mesh.ObjectRef, severity mesh.Severity, code, message string) mesh.Problem {
	return mesh.Problem{Object: of, Code: code, Severity: severity, Message: message}
}

// TestStatuses: an object has a status while it has a warning or an error, whether rows note it, a source reports it or proxies refuse it.
func TestStatuses(t *testing.T) {
	s := table.New(table.Options{})
	in := input.Declare(s, input.Options{})
	noted := table.NewInput(s, "noted", strings.Compare, func(a, b mesh.Problem) bool { return a == b })
	table.Derive(noted.Table, "notes", strings.Compare, table.Same[struct{}],
		func(r *table.Reader, _ string, p mesh.Problem, _ func(string, struct{})) { r.Note(p) })
	all := Declare(s, in)
	say := func(name string, list ...mesh.Problem) {
		in.Apply(source.Batch{Problems: map[source.Place][]mesh.Problem{{Source: "kube", Name: name}: list}})
	}
	file := rule
	file.File = "a.yaml"
	odd, bad := problem(rule, mesh.Warning, "Odd", "odd"), problem(rule, mesh.Error, "Bad", "bad")
	refused := problem(rule, mesh.Error, "Refused", "no")
	for _, step := range []struct {
		name string
		do   func()
		want string // the status of the rule: that of the version in force, and of the newest one
		rows int
	}{
		{"nothing", func() {}, "True InForce|", 0},
		{"a remark", func() { noted.Set("1", problem(rule, mesh.Info, "Note", "note")) }, "True InForce|", 0},
		{"a problem of a file", func() { noted.Set("2", problem(file, mesh.Error, "Bad", "bad")) }, "True InForce|", 0},
		{"a problem of no object", func() { noted.Set("3", problem(mesh.ObjectRef{Kind: "file"}, mesh.Error, "Bad", "bad")) },
			"True InForce|", 0},
		{"a warning", func() { noted.Set("4", odd) }, "True InForce warning: odd|", 1},
		{"the same on another row", func() { noted.Set("5", odd) }, "True InForce warning: odd|", 1},
		{"on one row alone", func() { noted.Delete("4") }, "True InForce warning: odd|", 1},
		{"an error", func() { noted.Set("6", bad) }, "False Bad bad; warning: odd|", 1},
		{"a source refuses a version", func() { say("v", problem(rule, mesh.Error, "Worse", "worse")) },
			"False Bad bad; worse; warning: odd|False Worse worse", 1},
		{"a source warns", func() { say("v", problem(rule, mesh.Warning, "Worse", "worse")) },
			"False Bad bad; warning: odd; warning: worse|", 1},
		{"another source comes first", func() { say("v", problem(rule, mesh.Warning, "DuplicateObject", "twice")) },
			"False Bad bad; warning: twice; warning: odd|False DuplicateObject twice", 1},
		{"no problems", func() { say("v"); noted.Delete("5"); noted.Delete("6") }, "True InForce|", 0},
		{"proxies refuse it", func() { all.Refused.Set("", []mesh.Problem{refused}) }, "False Refused no|", 1},
		{"others refuse it, too", func() { all.Refused.Set("other", []mesh.Problem{refused}) }, "False Refused no|", 1},
		{"the others alone", func() { all.Refused.Delete("") }, "False Refused no|", 1},
		{"none any more", func() { all.Refused.Delete("other") }, "True InForce|", 0},
	} {
		step.do()
		s.Settle()
		s.Read(func(tx *table.Tx) {
			is := all.Lookup(tx, Key{Object: config.KeyOf(rule)})
			text := func(c Condition) string {
				return strings.TrimSpace(fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message))
			}
			if got := text(is.InForce) + "|" + text(is.Newest); got != step.want || table.Len(tx, all.Statuses) != step.rows {
				t.Errorf("%s: %q, and %d rows; want %q, and %d", step.name, got, table.Len(tx, all.Statuses), step.want, step.rows)
			}
		})
	}
}

// TestConditionIsBounded: the text of a condition is bounded, whatever the number of problems.
func TestConditionIsBounded(t *testing.T) {
	var list []mesh.Problem
	for range 30 {
		list = append(list, mesh.Problem{Field: strings.Repeat("f", len(list)+1), Severity: mesh.Error, Message: strings.Repeat("x", 300)})
	}
	got := conditionOf(list)
	if len(got.Message) > mostText+100 || !strings.Contains(got.Message, "and 20 more") {
		t.Errorf("%d bytes: %s", len(got.Message), got.Message)
	}
	one := []mesh.Problem{
		{Field: "spec.a", Code: "Odd", Severity: mesh.Warning, Message: "odd"},
		{Field: "spec.b", Code: "Bad", Severity: mesh.Error, Message: "bad", Fix: "mend it"},
	}
	if got := conditionOf(one); got.Message != "spec.b: bad (mend it); warning: spec.a: odd" || got.Reason != "Bad" {
		t.Errorf("%+v", got)
	}
}
