package refused

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

func problem(namespace, name string, severity mesh.Severity, message string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: "DestinationRule", Namespace: namespace, Name: name},
		Code:   code.Refused, Severity: severity, Message: message,
	}
}

// Packing and unpacking keeps each problem once and unchanged, and leaves out problems of objects that are not stored.
func TestPackedAndUnpacked(t *testing.T) {
	of := []mesh.Problem{
		problem("shop", "web", mesh.Warning, "odd"),
		problem("shop", "api", mesh.Error, `a "proxy" refused <this> & that`),
		problem("shop", "web", mesh.Warning, "odd"),
		{Object: mesh.ObjectRef{Kind: "DestinationRule", Name: "filed", File: "a.yaml"}, Severity: mesh.Error, Message: "x"},
		{Object: mesh.ObjectRef{Kind: "MeshConfig"}, Severity: mesh.Error, Message: "x"},
	}
	got, err := unpack(pack(of))
	if want := []mesh.Problem{of[1], of[0]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("there is %v, %v; want %v", got, err, want)
	}
	if text := pack(of[3:]); text != "" {
		t.Errorf("nothing is written as %s", text)
	}
}

// A Lease is bounded, whatever proxies refuse: errors come first, and no namespace displaces the others.
func TestPackIsBounded(t *testing.T) {
	var of []mesh.Problem
	for n := range 3000 {
		of = append(of, problem("noisy", fmt.Sprint("rule-", n), mesh.Error, strings.Repeat("x", 5000)))
		of = append(of, problem("all", fmt.Sprint("rule-", n), mesh.Warning, "odd"))
	}
	of = append(of, problem("shop", "web", mesh.Error, "bad"))
	of = Brief(of)
	text := pack(of)
	got, err := unpack(text)
	if err != nil || len(text) > mostText || len(got) < mostText/2000 {
		t.Fatalf("%d problems in %d bytes: %v", len(got), len(text), err)
	}
	if got[0].Severity != mesh.Error || !slices.Contains(got[:2], problem("shop", "web", mesh.Error, "bad")) {
		t.Errorf("it begins with %v", got[:2])
	}
	if n := len(of[0].Message); n != mostWords {
		t.Errorf("a message has %d bytes", n)
	}
	for n := range of {
		of[n].Message = "odd"
	}
	if got, err := unpack(pack(of)); err != nil || len(got) != mostProblems {
		t.Errorf("%d problems, %v", len(got), err)
	}
}

// Text that another client wrote into a Lease is an error, or is bounded and printable.
func TestOddLeases(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "[] <nil>",
		"{}":                                  "[] its content cannot be read",
		"[7]":                                 "[] its content cannot be read",
		"[{}]":                                "[] <nil>",
		`[{"kind":"A\u001b","name":"b"}]`:     "[] <nil>",
		`[{"kind":"A","name":"b\u001b"}]`:     "[] <nil>",
		`[{"kind":"A","name":"b","error":1}]`: "[] its content cannot be read",
		`[{"kind":"A","name":"b","message":"c\u001b"}]`: "[warning: A /b: c\uFFFD] <nil>",
		strings.Repeat(" ", mostText+1):                 "[] it has more than 65536 bytes",
	} {
		got, err := unpack(text)
		if is := fmt.Sprint(got, " ", err); is != want {
			t.Errorf("%.60q says %s, want %s", text, is, want)
		}
	}
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"kind":"A","name":"b"},`, 500), ",") + "]"
	if got, err := unpack(many); err != nil || len(got) != mostProblems {
		t.Errorf("of 500 there are %d, %v", len(got), err)
	}
}
