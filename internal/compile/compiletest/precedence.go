package compiletest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Row is a row of a table that says which of several rules counts.
type Row struct {
	Name string
	// Cite is the sentence that demands it. If it is of Istio's API reference: "FILE.proto MESSAGE.FIELD: WORDS" of the comment of that
	// field, or of the message, or of the file's head if neither is named. Else: "beyond the API reference: " and the source that the row
	// follows. A test of internal/lint looks the words up.
	Cite string
	// Rules are lines "KIND NAMESPACE/NAME SPEC", the oldest first. NAMESPACE/NAME@N has age N; a lower N is older. A line that begins with
	// a blank continues the one before it.
	Rules string
	Want  string
}

// Precedence runs each row as a test of its own, in a world that already has the proxies and the rules of base (lines like a row's rules).
// look describes the effect of the rules. It must return what the row wants if all rules come at once, and also if they come one by one,
// the youngest first, with a turn after each: which rule counts must not depend on the order of arrival.
func Precedence(t *testing.T, base string, proxies []mesh.Proxy, rows []Row, look func(w *World) string) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			for _, byOne := range []bool{false, true} {
				w := New(t)
				w.Connect(proxies...)
				w.stage(w.rules(base, 0)...)
				rules := w.rules(row.Rules, 1000)
				if byOne {
					slices.Reverse(rules)
					for _, o := range rules {
						w.stage(o)
						w.Settle()
					}
				}
				w.stage(rules...)
				w.Settle()
				if got := strings.TrimSpace(look(w)); got != row.Want {
					t.Errorf("%s\nrules one by one, the youngest first: %t\ngot\n%s\nwant\n%s", row.Cite, byOne, got, row.Want)
				}
			}
		})
	}
}

func (w *World) stage(objects ...*config.Object) {
	w.In.Apply(source.Batch{Set: source.Rows{Objects: objects}})
}

// rules returns the objects of the lines. from is older than all of them.
func (w *World) rules(text string, from int64) (out []*config.Object) {
	w.t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			lines[len(lines)-1] += " " + strings.TrimSpace(line)
		default:
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for i, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		at, spec, ok := strings.Cut(rest, " ")
		if !ok {
			w.t.Fatalf("not a rule: %q", line)
		}
		at, age, aged := strings.Cut(at, "@")
		namespace, name, _ := strings.Cut(at, "/") // MeshConfig has neither
		created := from + int64(i) + 1
		if aged {
			n, err := strconv.ParseInt(age, 10, 64)
			if err != nil {
				w.t.Fatalf("%q: %v", line, err)
			}
			created = from + n
		}
		text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s\n",
			versionOf(config.Kind(kind)), kind, name, namespace, spec)
		for _, doc := range config.Split("test.yaml", []byte(text)) {
			o := w.decode(doc)
			if o == nil {
				w.t.Fatalf("no object: %s", text)
			}
			made := *o
			made.Created = created
			out = append(out, &made)
		}
	}
	return out
}

func versionOf(k config.Kind) string {
	switch k {
	case config.PeerAuthentication, config.RequestAuthentication, config.AuthorizationPolicy:
		return "security.istio.io/v1"
	case config.Telemetry:
		return "telemetry.istio.io/v1"
	case config.WasmPlugin, config.TrafficExtension:
		return "extensions.istio.io/v1alpha1"
	case config.EnvoyFilter:
		return "networking.istio.io/v1alpha3"
	case config.ProxyConfig:
		return "networking.istio.io/v1beta1"
	}
	return "networking.istio.io/v1"
}

// Proxy returns a connected proxy. words are those of Golden's connect command.
func Proxy(words string) mesh.Proxy { return parseProxy(strings.Fields(words)) }
