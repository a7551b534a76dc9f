package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"fairway/internal/mesh"
)

// trees are the documents of all tests that are trees at all: valid ones, and those with mistakes.
func trees(t testing.TB) []Document {
	t.Helper()
	docs := validDocs(t)
	files, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name != "want" && filepath.Base(path) != "mesh.txtar" {
				docs = append(docs, Split(f.Name, f.Data)...)
			}
		}
	}
	return slices.DeleteFunc(docs, func(d Document) bool {
		tree, _ := d.Tree()
		_, isTree := tree.(map[string]any)
		return !isTree
	})
}

// unplaced are problems without file and lines, each once.
func unplaced(problems []mesh.Problem) []mesh.Problem {
	out := slices.Clone(problems)
	for i := range out {
		out[i].Line, out[i].Object.File, out[i].Object.Line = 0, "", 0
	}
	slices.SortFunc(out, mesh.CompareProblem)
	return slices.Compact(out)
}

// sameAsText decodes an object in all forms and compares the results.
func sameAsText(t *testing.T, d *Decoder, doc Document) (accepted bool) {
	t.Helper()
	parsed, _ := doc.Tree()
	tree := parsed.(map[string]any)
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var floats map[string]any // all numbers are float64
	if err := json.Unmarshal(raw, &floats); err != nil {
		t.Fatal(err)
	}
	want, said := d.Decode(doc)
	for form, decode := range map[string]func() (*Object, []mesh.Problem){
		"tree":             func() (*Object, []mesh.Problem) { return d.DecodeTree("", tree) },
		"tree from a text": func() (*Object, []mesh.Problem) { return d.DecodeTree("", floats) },
		"JSON":             func() (*Object, []mesh.Problem) { return d.DecodeJSON("", raw) },
	} {
		got, problems := decode()
		if (got == nil) != (want == nil) || got != nil && !Same(got, want) {
			t.Errorf("%s of\n%s\nis %v, want %v", form, doc.Text, got, want)
		}
		if got, want := unplaced(problems), unplaced(said); !reflect.DeepEqual(got, want) {
			t.Errorf("%s of\n%s\n got %v\nwant %v", form, doc.Text, got, want)
		}
		for _, p := range problems {
			if p.Line != 0 || p.Object.File != "" || p.Object.Line != 0 {
				t.Errorf("%s: a problem has a place: %v", form, p)
			}
		}
		if got == nil {
			continue
		}
		w := got.Written()
		if w.Text != nil || w.Ref.File != "" || w.Ref.Line != 0 || w.Ref.Name != got.Name {
			t.Errorf("%s: written in %+v", form, w)
		}
	}
	if again, _ := json.Marshal(tree); string(again) != string(raw) {
		t.Errorf("the tree became %s, it was %s", again, raw)
	}
	return want != nil
}

// TestTreesAreTexts: an object is the same whether it came as a tree, as JSON, or as its text. Its problems are the same except for their
// places.
func TestTreesAreTexts(t *testing.T) {
	d := newTestDecoder(t)
	accepted, refused := 0, 0
	for _, doc := range trees(t) {
		if sameAsText(t, d, doc) {
			accepted++
		} else {
			refused++
		}
	}
	if accepted < 30 || refused < 50 {
		t.Errorf("only %d objects and %d refused ones compared", accepted, refused)
	}
}

// FuzzTree: any JSON gives the same result as a text and as a tree.
func FuzzTree(f *testing.F) {
	d := newTestDecoder(f)
	for _, doc := range trees(f) {
		tree, _ := doc.Tree()
		raw, err := json.Marshal(tree)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc := Document{File: "x", Line: 1, Text: raw}
		tree, _ := doc.Tree()
		if _, is := tree.(map[string]any); !is || !json.Valid(raw) {
			return
		}
		_, said := d.Decode(doc)
		if len(said) > maxProblems { // which ones are kept is a matter of order
			return
		}
		sameAsText(t, d, doc)
	})
}

const storedEntry = `{"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": {"name": "a", "namespace": "shop",
 "uid": "0d9c8b4e", "resourceVersion": "4711", "generation": 3}, "spec": {"address": "1.1.1.1"}}`

// TestStored: the object's identity in its API server is kept beside it, and is not part of its content.
func TestStored(t *testing.T) {
	d := newTestDecoder(t)
	decode := func(text string) *Object {
		t.Helper()
		o, problems := d.DecodeJSON("east", []byte(text))
		if o == nil {
			t.Fatal(problems)
		}
		return o
	}
	first, later := decode(storedEntry), decode(strings.Replace(storedEntry, "4711", "4712", 1))
	if want := (Stored{Cluster: "east", UID: "0d9c8b4e", Generation: 3, ResourceVersion: "4711"}); first.Written().Stored != want {
		t.Errorf("got %+v, want %+v", first.Written().Stored, want)
	}
	if got := first.Written().String(); got != "east 0d9c8b4e@4711 generation 3" {
		t.Errorf("it is written at %q", got)
	}
	if !Same(first, later) || first.Written().Equal(later.Written()) || !first.At(later.Written()).Written().Equal(later.Written()) {
		t.Errorf("%+v and %+v", first.Written(), later.Written())
	}
	if got := first.Unplaced(); got.Stored != (Stored{}) || !Same(got, first) {
		t.Errorf("unplaced it is %+v", got)
	}
	if p := first.Problem("spec.address", "C", mesh.Warning, "m", ""); p.Line != 0 || p.Object.Name != "a" || p.Object.Namespace != "shop" {
		t.Errorf("a problem of it is %+v", p)
	}
	text, _ := d.Decode(Document{File: "x.json", Line: 1, Text: []byte(storedEntry)})
	if text.Stored != (Stored{}) || text.Written().String() != "x.json:1" {
		t.Errorf("a text says that it is stored: %+v", text.Written())
	}
}

// TestStoredOfStrangers: values that no API server writes are left empty, and a refused object still has its identity.
func TestStoredOfStrangers(t *testing.T) {
	meta := func(fields map[string]any) map[string]any { return map[string]any{"kind": 7, "metadata": fields} }
	nothing := Stored{Cluster: "c"}
	for name, c := range map[string]struct {
		tree map[string]any
		want Stored
	}{
		"nothing":       {nil, nothing},
		"no metadata":   {map[string]any{"metadata": "x"}, nothing},
		"other types":   {meta(map[string]any{"uid": 1, "resourceVersion": []any{}, "generation": "3"}), nothing},
		"too long":      {meta(map[string]any{"uid": strings.Repeat("x", 129)}), nothing},
		"not printable": {meta(map[string]any{"uid": "a\x1b[2J", "resourceVersion": "1\n2"}), nothing},
		"a fraction":    {meta(map[string]any{"generation": 1.5}), nothing},
		"refused": {
			meta(map[string]any{"uid": "u", "resourceVersion": "1", "generation": 2.0}),
			Stored{Cluster: "c", UID: "u", ResourceVersion: "1", Generation: 2},
		},
	} {
		if got := StoredIn("c", c.tree); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestHostileTrees: a tree over a limit gives one problem of its object, and costs no more than the limit.
func TestHostileTrees(t *testing.T) {
	d := newTestDecoder(t)
	entry := func(address any) map[string]any {
		return map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": map[string]any{"name": "a", "namespace": "shop"},
			"spec": map[string]any{"address": address},
		}
	}
	shared := any(map[string]any{"a": "x"})
	for range 90 {
		shared = map[string]any{"a": shared, "b": shared, "c": shared}
	}
	circle := map[string]any{}
	circle["a"], circle["b"] = circle, circle
	for name, address := range map[string]any{
		"shared": shared, "circle": circle, "long": strings.Repeat("x", 64<<20), "many": make([]any, 10_000_000),
		"no text": "\xff", "no type": make(chan int), "a pointer": &circle,
	} {
		var o *Object
		var problems []mesh.Problem
		tree := entry(address)
		spent, _ := spend(func() { o, problems = d.DecodeTree("east", tree) })
		if o != nil || len(problems) != 1 || problems[0].Code != "Syntax" || problems[0].Line != 0 ||
			problems[0].Object != (mesh.ObjectRef{Kind: "WorkloadEntry", Namespace: "shop", Name: "a"}) {
			t.Errorf("%s: %v", name, problems)
		}
		if spent > 200<<20 {
			t.Errorf("%s: %d MB of memory", name, spent>>20)
		}
	}
	for name, text := range bombs(64 << 10) {
		var problems []mesh.Problem
		got, _ := spend(func() { _, problems = d.DecodeJSON("east", []byte(text)) })
		if most := uint64(16<<20 + 1000*len(text)); got > most || len(problems) > maxProblems+1 {
			t.Errorf("%s: %d bytes of text take %d of memory, at most %d, and make %d problems", name, len(text), got, most, len(problems))
		}
	}
	if o, problems := d.DecodeTree("east", nil); o != nil || len(problems) != 1 || problems[0].Code != "NoKind" {
		t.Errorf("no tree: %v", problems)
	}
}

// TestHostileSecrets: if a Secret is refused, as a tree or as JSON, the problem does not show its content.
func TestHostileSecrets(t *testing.T) {
	d := newTestDecoder(t)
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"},
		"stringData": map[string]any{"key": "hunter2", "more": []byte("hunter2")},
	}
	_, problems := d.DecodeTree("east", secret)
	_, more := d.DecodeJSON("east", []byte(`{"kind": "Secret", "stringData": {"key": "hunter2" hunter2}}`))
	for _, p := range append(problems, more...) {
		if strings.Contains(fmt.Sprintf("%+v", p), "hunter2") {
			t.Errorf("told: %+v", p)
		}
	}
	if len(problems) != 1 || len(more) != 1 {
		t.Errorf("%v %v", problems, more)
	}
}

// TestAcceptedObjectsKeepUnknownFields: if an API server keeps an object, an unknown field is a Warning, and the rest of the object
// counts. In an AuthorizationPolicy it is an Error, because the policy could let more through without the field. It is an Error, too, in
// an object that no API server keeps yet.
func TestAcceptedObjectsKeepUnknownFields(t *testing.T) {
	const authentication = `{"apiVersion": "security.istio.io/v1", "kind": "RequestAuthentication", "metadata": {"name": "a", "namespace": "shop"},
		"spec": {"jwtRules": [{"issuer": "https://issuer.example", "jwksUri": "https://issuer.example/keys", "presence": "REQUIRED"}]}}`
	const policy = `{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "a", "namespace": "shop"},
		"spec": {"rules": [{"from": [{"source": {"namespaces": ["shop"], "moons": ["1"]}}]}]}}`
	d := newTestDecoder(t)
	for _, c := range []struct {
		name, cluster, text string
		taken               bool
		severity            mesh.Severity
	}{
		{"kept by a server", "east", authentication, true, mesh.Warning},
		{"not kept yet", "", authentication, false, mesh.Error},
		{"a policy", "east", policy, false, mesh.Error},
	} {
		o, problems := d.DecodeJSON(c.cluster, []byte(c.text))
		if (o != nil) != c.taken || len(problems) == 0 || problems[0].Code != "UnknownField" || problems[0].Severity != c.severity {
			t.Errorf("%s: object %v, problems %v", c.name, o, problems)
		}
	}
}
