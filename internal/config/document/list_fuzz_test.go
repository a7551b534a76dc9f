package document

import (
	"encoding/json"
	"strings"
	"testing"
)

// listSeeds are lists in every form that YAML and JSON allow.
func listSeeds() []string {
	const head, tail = "apiVersion: v1\nkind: List\n", "metadata: {resourceVersion: \"\"}\n"
	return []string{
		head + "items:\n- a: 1\n  b: [x, 'y']\n- c: |\n    text\n     more\n\n  d: e\n" + tail,
		head + "items:\n  - a: &x {b: c}\n    d: *x\n  - e: *x\n    f: &x [1, 2.5, yes, ~, '1', 0x10]\n  - *x\n  - g: *x\n",
		head + "x: &base {a: 1, b: {c: 2}}\nitems:\n- <<: *base\n  b: own\n- {<<: [*base, {z: 1}], a: 2}\n- <<: [{b: 1}, *base]\n" + tail,
		"{kind: List, items: [{a: it's, b: \"}\"}, {c: [1,\n 2]},\n {d: é, 'e f': null}]}",
		"{kind: List, x: &a [1], items: [{a: *a}, {b: &b c, d: *b}, {c: *b}]}\n# behind\n",
		`{"kind": "PodList", "items": [{"a": "\u00e9\n", "b": 1e3}, {"c": {}}]}`,
		head + "items:\n- &a\n  b: c\n- *a\n- ? d\n  : e\n- \"f\": \"g\n\n  h\"\n- i: {j: 1,\nk: 2}\n" + tail,
		head + "items:\n-\n  a: 1\n# remark\n  b: 2\n-   c: 3\n    # d\n    e: >-\n      f\n      g\n",
		`{"kind": "List", "items": [{"a": 1}, "b": {}, {"c": 1}]}`,
		head + "items: &l\n- a: 1\nmore: *l\n",
		"kind: &k List\nitems:\n- kind: *k\n",
		head + "items: []\n",
		head + "items:\n- a\n- null\n-\n- [b]\n- {}\n",
		"a: b\rkind: List\ritems:\r- c: d\r- e: f\r",
		head + "items:\n- a: &a [*a]\n- b: *a\n",
		head + "items:\n- !!binary: x\n- a: !!binary aGk=\n- b: !x y\n",
		head + "items:\n- a: .nan\n- 1.5: x\n",
		head + "items:\n- a: \"x\ny\"\n- b: 'c\n d'\n- e: f\n  a: 1\n  a: 2\n",
		head + "items:\n- &a\n b: c\n- d: e\n",
		head + "items:\n- &a {b: 1}\n- &a {b: 2, c: *a}\n- d: *a\n",
	}
}

// sameItems: a list is split into documents that equal the items of the whole list.
func sameItems(t *testing.T, text string) {
	t.Helper()
	whole, bad := parseTree([]byte(text))
	tree, _ := whole.(map[string]any)
	items, _ := tree["items"].([]any)
	if bad != nil || items == nil {
		return
	}
	docs := expand(Document{Line: 1, Text: []byte(text)})
	if len(docs) == 1 && string(docs[0].Text) == text {
		return // no list to us: it is refused, or of no concern
	}
	if len(docs) != len(items) {
		t.Fatalf("%q: %d documents of %d items", text, len(docs), len(items))
	}
	for i, d := range docs {
		got, err := d.Tree()
		if err != nil && !strings.Contains(err.Message, "expand to too much") && !strings.Contains(err.Message, "nested deeper") ||
			err == nil && asJSON(t, got) != asJSON(t, items[i]) {
			t.Errorf("%q, item %d: %q\n got %#v %+v\nwant %#v", text, i, d.Text, got, err, items[i])
		}
	}
}

// asJSON returns a value as in JSON, which has one type of numbers: 1e3 is a float to the reader of JSON and an integer to that of YAML.
func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestListsAreTheirItems(t *testing.T) {
	for _, s := range listSeeds() {
		sameItems(t, s)
	}
}

func FuzzList(f *testing.F) {
	for _, s := range listSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sameItems(t, text)
	})
}

// TestAliasesOfAListAreBounded: aliases between the items of a list have one limit for all of them together.
func TestAliasesOfAListAreBounded(t *testing.T) {
	text := "kind: List\nx: &a [" + strings.Repeat("1,", 5000) + "1]\nitems:\n" + strings.Repeat("- b: *a\n", 100)
	docs := expand(Document{Line: 1, Text: []byte(text)})
	size, refused := 0, 0
	for _, d := range docs {
		size += len(d.Text)
		if d.bad != nil {
			refused++
		}
	}
	if len(docs) != 100 || refused < 90 || size > 10*len(text) {
		t.Errorf("%d documents of %d bytes in all, %d refused: want nearly all of 100 refused", len(docs), size, refused)
	}
	if tree, bad := docs[99].Tree(); tree != nil || bad == nil || !strings.Contains(bad.Message, "expand to too much") {
		t.Errorf("%v %v", tree, bad)
	}
}
