package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairway/internal/mesh"
)

const meta = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: a\n"

// The limits as documented; those of documents, reports and Secrets are in their rooms.
const (
	maxDepth    = 100
	maxNodes    = 2_000_000
	maxProblems = 100
	maxSecret   = 1 << 20
)

// bombs are texts that are small and mean much, or cost more than their length to read.
func bombs(size int) map[string]string {
	nine := func(what string) string { return strings.TrimSuffix(strings.Repeat(what+", ", 9), ", ") }
	laughs := "a: &a [" + nine("x") + "]\n"
	for c := 'b'; c <= 'i'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, nine("*"+string(c-1)))
	}
	wide := "x: &x [" + strings.Repeat("a, ", size/12) + "a]\ny: [" + strings.Repeat("*x, ", size/8) + "*x]\n"
	long := "x: &x " + strings.Repeat("s", size/2) + "\nspec:\n  y: [" + strings.Repeat("*x, ", size/8) + "*x]\n"
	merged := "x: &x {" + strings.Repeat("a: b, ", size/24) + "c: d}\n" + strings.Repeat("- <<: *x\n", size/20)
	return map[string]string{
		"aliases of aliases":       meta + laughs,
		"aliases of a long list":   meta + wide,
		"aliases of a long string": meta + long,
		"merges":                   merged,
		"an alias of itself":       "a: &a [*a, *a]\n",
		"a list of lists":          strings.Repeat("[", size),
		"closed":                   "a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"maps of maps":             strings.Repeat("{a: ", size/4),
		"dashes":                   strings.Repeat("- ", size/2),
		"JSON of lists":            `{"a":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2) + "}",
		"JSON of maps":             strings.Repeat(`{"a":`, size/6) + "1" + strings.Repeat("}", size/6),
		"JSON deep":                strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500),
		"JSON of one field":        "{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, size/6), ",") + "}",
		"JSON of empty maps":       `{"spec":[` + strings.TrimSuffix(strings.Repeat("{},", size/3), ",") + "]}",
		"a long number":            `{"spec":` + strings.Repeat("9", size) + "}",
		"a long number in YAML":    "a: " + strings.Repeat("9", size) + "\n",
		"comments":                 meta + strings.Repeat("# c\n", size/4),
		"comments in a list":       "a:\n" + strings.Repeat("# c\n- b # d\n", size/12),
		"anchors":                  "a: [" + strings.Repeat("&a b, ", size/6) + "c]\n",
		"questions":                strings.Repeat("? ", size/2),
		"tags":                     "a: [" + strings.Repeat("!!str b, ", size/9) + "c]\n",
		"quotes":                   "a: [" + strings.Repeat(`"\n", `, size/6) + "c]\n",
		"blank lines":              "a: |\n" + strings.Repeat("\n", size) + "b\n",
		"unknown fields":           meta + "spec:\n" + strings.Repeat("  x", 1) + ": 1\n" + numbered("  zz%d: 1\n", size/12),
		"wrong values":             meta + "spec:\n  address: 1.1.1.1\n  labels:\n" + numbered("    l%d: 1\n", size/12),
		"a long name":              strings.Replace(meta, "name: a", "name: "+strings.Repeat("a", size), 1) + "spec: {address: 1.1.1.1}\n",
		"a long field":             meta + "spec:\n  ? " + strings.Repeat("a", size) + "\n  : 1\n",
		"labels":                   meta + "  labels:\n" + numbered("    -l%d: -\n", size/14) + "spec: {address: 1.1.1.1}\n",
		"unknown metadata":         meta + numbered("  u%d: 1\n", size/10),
		"ports of a service": "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\nspec:\n  " +
			"hosts: [a.b]\n  ports:\n" + numbered("  - {number: 80, name: n%d}\n", size/30),
		"a list's items in a line":  `{"kind":"List","items":[` + strings.TrimSuffix(strings.Repeat(`{"a":"ü"},`, size/12), ",") + "]}",
		"a list's items in YAML":    "kind: List\nitems: [" + strings.Repeat("{a: b}, ", size/8) + "{a: c}]\n",
		"a list's items on lines":   "kind: List\nitems: [\n" + strings.Repeat("{\"a\": 1},\n", size/10) + "{\"a\": 2}]\n",
		"a list with carriage ends": "kind: List\nitems:\r- a: b\r- a: c\r- d\n",
		"documents":                 strings.Repeat("a\n---\n", size/6),
		"markers":                   strings.Repeat("--- a\n", size/6),
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// spend returns the memory that a call allocates, garbage included, and its time.
func spend(do func()) (bytes uint64, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}

// TestBombs: for any text, the cost is in proportion to its length, and there are few and short problems.
func TestBombs(t *testing.T) {
	d := newTestDecoder(t)
	for _, doc := range validDocs(t) { // schemas are read and rules compiled once
		d.Decode(doc)
	}
	const size = 64 << 10
	for name, text := range bombs(size) {
		t.Run(name, func(t *testing.T) {
			var said []mesh.Problem
			docs := 0
			got, took := spend(func() {
				for _, doc := range Split("bomb.yaml", []byte(text)) {
					docs++
					_, problems := d.Decode(doc)
					if len(problems) > maxProblems+1 {
						t.Errorf("%d problems", len(problems))
					}
					said = append(said, problems...)
				}
			})
			most := uint64(16<<20 + 1000*len(text) + docs<<15) // a parser of YAML begins with 12 KB
			if got > most {
				t.Errorf("%d bytes of text take %d of memory, at most %d", len(text), got, most)
			}
			t.Logf("%d bytes: %d KB, %v", len(text), got>>10, took)
			for _, p := range said {
				if len(p.String()) > 20<<10 {
					t.Errorf("a problem of %d bytes", len(p.String()))
				}
			}
		})
	}
}

// TestManyMistakes: a hundred are reported and the rest are counted, in a time that does not grow with the square of their number.
func TestManyMistakes(t *testing.T) {
	d := newTestDecoder(t)
	text := meta + "spec:\n  address: 1.1.1.1\n  labels:\n" + numbered("    l%d: 1\n", 40_000)
	_, took := spend(func() {
		o, problems := d.Decode(Document{File: "x", Line: 1, Text: []byte(text)})
		last := problems[len(problems)-1]
		if o != nil || len(problems) != maxProblems+1 || last.Code != "TooManyProblems" || last.Severity != mesh.Error ||
			!strings.Contains(last.Message, "more problems") {
			t.Errorf("%d problems, the last %v", len(problems), last)
		}
	})
	if took > 30*time.Second { // a minute and a half without a bound, on a machine at rest
		t.Errorf("it took %v", took)
	}
}

// TestBounds: a document over a limit has a problem that names the limit, and a document just within it has none.
func TestBounds(t *testing.T) {
	d := newTestDecoder(t)
	entry := func(metadata string) string {
		return "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n" + metadata + "spec: {address: 1.1.1.1}\n"
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	value := func(n int) string { return "  name: a\n  annotations: {k: " + strings.Repeat("v", n) + "}\n" }
	secret := func(n int) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  k: " + strings.Repeat("v", n) + "\n"
	}
	for _, c := range []struct{ name, text, code string }{
		{"a name", entry("  name: " + strings.Repeat("a", 253) + "\n"), ""},
		{"a long name", entry("  name: " + strings.Repeat("a", 254) + "\n"), "BadName"},
		{"a namespace", entry("  name: a\n  namespace: " + strings.Repeat("a", 63) + "\n"), ""},
		{"a long namespace", entry("  name: a\n  namespace: " + strings.Repeat("a", 64) + "\n"), "BadName"},
		{"a label", entry("  name: a\n  labels: {k: " + strings.Repeat("v", 63) + "}\n"), ""},
		{"a long label", entry("  name: a\n  labels: {k: " + strings.Repeat("v", 64) + "}\n"), "BadLabel"},
		{"annotations", entry(value(maxAnnotations - 1)), ""},
		{"long annotations", entry(value(maxAnnotations)), "TooMuch"},
		{"a Secret", secret(maxSecret - 1), ""},
		{"a large Secret", secret(maxSecret), "TooMuch"},
		{"deep", "a: " + deep(maxDepth-1), "NoKind"},
		{"too deep", "a: " + deep(maxDepth+1), "Syntax"},
		{"deep JSON", `{"a": ` + deep(maxDepth-1) + "}", "NoKind"},
		{"too deep JSON", `{"a": ` + deep(maxDepth+1) + "}", "Syntax"},
		{"aliases of words", entry("  name: a\n  labels: {a: &v x, b: *v, c: *v}\n"), ""},
		{"as many values as may be", "a: [" + strings.Repeat("a,", maxNodes/4) + "b]\n", "NoKind"},
		{"more", "a: [" + strings.Repeat("a,", maxNodes) + "b]\n", "Syntax"},
	} {
		o, problems := d.Decode(Document{File: "x", Line: 1, Text: []byte(c.text)})
		got := ""
		if len(problems) > 0 {
			got = problems[0].Code
		}
		if got != c.code || (o == nil) != (c.code != "") {
			t.Errorf("%s: %v", c.name, problems)
		}
	}
}

// TestListWithOtherCharacters: an item is found by characters, not by bytes.
func TestListWithOtherCharacters(t *testing.T) {
	docs := Split("f", []byte(`{"kind":"List","items":[{"a":"ü日"},{"b":"é"},`+"\n"+`{"c":1}]}`))
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%d%s", d.Line, d.Text))
	}
	if fmt.Sprint(got) != `[1{"a":"ü日"} 1{"b":"é"} 2{"c":1}]` {
		t.Error(got)
	}
}
