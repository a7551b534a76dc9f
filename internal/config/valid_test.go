package config

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// validDocs are documents of every kind that use most of its fields.
func validDocs(t testing.TB) []Document {
	t.Helper()
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return Split("valid.yaml", text)
}

func newTestDecoder(t testing.TB) *Decoder {
	t.Helper()
	d, err := NewDecoder(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryKindDecodes(t *testing.T) {
	d := newTestDecoder(t)
	seen := map[Kind]bool{}
	for _, doc := range validDocs(t) {
		o, problems := d.Decode(doc)
		if o == nil || len(problems) > 0 {
			t.Errorf("line %d: %v", doc.Line, problems)
			continue
		}
		seen[o.Kind] = true
	}
	for _, k := range Kinds() {
		if !seen[k] {
			t.Errorf("no document of kind %s", k)
		}
	}
}

// TestEveryVersionDecodes: what version an object is written in makes no difference.
func TestEveryVersionDecodes(t *testing.T) {
	d := newTestDecoder(t)
	for _, doc := range validDocs(t) {
		first, _ := d.Decode(doc)
		s, err := d.kinds[first.Kind].load()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range s.Versions {
			line, rest, _ := strings.Cut(string(doc.Text), "\n")
			doc.Text = []byte(line[:strings.LastIndex(line, "/")+1] + v + "\n" + rest)
			o, problems := d.Decode(doc)
			if o == nil || o.Hash != first.Hash {
				t.Errorf("%s %s: %v", first.Kind, v, problems)
			}
		}
	}
	for kind, want := range map[Kind][]string{
		VirtualService:      {"v1", "v1alpha3", "v1beta1"},
		Telemetry:           {"v1", "v1alpha1"},
		AuthorizationPolicy: {"v1", "v1beta1"},
	} {
		if s, _ := d.kinds[kind].load(); !slices.Equal(s.Versions, want) {
			t.Errorf("%s: %v", kind, s.Versions)
		}
	}
}

// TestDecoderIsShared: one decoder on many goroutines, its kinds prepared under their feet. For the race detector.
func TestDecoderIsShared(t *testing.T) {
	d, docs := newTestDecoder(t), validDocs(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range docs {
				if o, problems := d.Decode(docs[(i+j)%len(docs)]); o == nil {
					t.Error(problems)
				}
			}
		})
	}
	wg.Wait()
}

// TestHashIsWhatIsSaid: it does not depend on layout or place, and it does on every part of an object.
func TestHashIsWhatIsSaid(t *testing.T) {
	d := newTestDecoder(t)
	decode := func(text string) *Object {
		t.Helper()
		o, problems := d.Decode(Document{File: "x", Line: 1, Text: []byte(text)})
		if o == nil {
			t.Fatal(problems)
		}
		return o
	}
	const block = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: a\n  labels: {x: " +
		"q}\nspec:\n  address: 1.1.1.1\n  labels:\n    b: c\n    d: e\n"
	a := decode(block)
	b := decode(
		`{"kind":"WorkloadEntry","apiVersion":"networking.istio.io/v1beta1","spec":{"labels":{"d":"e","b":"c"},"address":"1.1.1.1"},"metadata":{"labels":{"x":"q"},"namespace":"default","name":"a"}}`,
	)
	if a.Hash != b.Hash || a.Key != b.Key {
		t.Errorf("%v %x, %v %x", a.Key, a.Hash, b.Key, b.Hash)
	}
	for _, change := range [][2]string{
		{"name: a", "name: b"},
		{"x: q", "x: z"},
		{"1.1.1.1", "1.1.1.2"},
		{"d: e", "d: f"},
		{"labels: {x: q}", "annotations: {x: q}"},
		{"  name: a\n", "  name: a\n  namespace: m\n"},
		{"  name: a\n", "  name: a\n  creationTimestamp: \"2020-01-01T00:00:00Z\"\n"},
	} {
		if o := decode(strings.Replace(block, change[0], change[1], 1)); o.Hash == a.Hash {
			t.Errorf("%v: same hash", change)
		}
	}
}
