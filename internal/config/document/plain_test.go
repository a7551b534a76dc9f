package document

import (
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// plainSeeds are documents of every form that the plain parser reads or must refuse.
func plainSeeds() []string {
	return []string{
		"a: 1\nb:\n  c: x\n  d: [1, two, 'three', \"four\"]\n",
		"a:\n- b: 1\n  c: 2\n- b: 3\nd: {e: f, g: {h: 1}}\n",
		"a:\n  - x\n  -   y: 1\n      z: 2\n  -\n    k: v\n",
		"a: yes\nb: no\nc: on\nd: y\ne: ~\nf: null\ng: 1e3\nh: 0x10\ni: 010\nj: 1_000\nk: .5\nl: 1.0\nm: -1\nn: " +
			"2001-01-01\no: 10.0.0.1\np: 5s\nq: 1:30\nr: 1.5e400\n",
		"8080: x\nyes: 1\n1.5: 2\n",
		"a: b # c\n# d\ne: 'f' # g\n",
		"a: b\n  c\n",
		"a: |\n  b\n",
		"a: &x b\nc: *x\n",
		"<<: {a: 1}\n",
		"a: b: c\n",
		"a: [\n 1]\n",
		"a: 1\na: 2\n",
		"- a\n",
		"a:\n- b\n c: d\n",
		"a: \"x\\ny\"\n",
		"a: 'it''s'\n",
		"---\na: b\n",
		"a: b\n---\nc: d\n",
		"a:\tb\n",
		"a: é\n",
		"a:\n",
		"a: \"b\"c\n",
		"a: 'b' 'c'\n",
		"{a: b}\n",
		" a: b\n",
		"a: -\nb: - c\n",
		"a:\n    b: c\n  d: e\n",
		"a: [b, c,]\nd: {}\ne: []\n",
		"a: [x: y]\n",
		"a: {b}\n",
		"a: *\n",
		"a: http://x.y/z\n",
		"a: b:\n",
		"a: [*.x]\n",
		"a: [10.0.0.1:80]\n",
		"a: '*/*'\nb: \"./*\"\n",
		"a: #x\nb: 1\n",
		"a: b#c\n",
		"0o7: 1\na: 0o7\nb: 0b1\nc: +1\nd: 9223372036854775808\ne: 18446744073709551616\n",
		"a: [-1, - 2]\n",
		"'a': 1\n\"b c\": 2\n",
		"a: 1_\nb: _1\nc: 1e\nd: e1\ne: 1.\n",
		"a: 2001-1-1\nb: 12345-6\n",
		"a:\n  b:\n  - c\n  d: e\n",
		"a: [ 'x' , \"y\" ]\n",
	}
}

// sameAsKubectl compares the results of parseTree and of kubectl's library for a text.
func sameAsKubectl(t *testing.T, text string) {
	t.Helper()
	got, bad := parseTree([]byte(text))
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil || bad != nil {
		return // the two may find different mistakes, but must read valid texts alike
	}
	var want any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &want); err != nil {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q\n got %#v\nwant %#v", text, got, want)
	}
}

// sameAsLibrary: a text that the plain parser accepts means the same to the YAML library.
func sameAsLibrary(t *testing.T, text string) {
	t.Helper()
	got, ok := parsePlain([]byte(text))
	if !ok {
		return
	}
	want, bad := parseYAML([]byte(text))
	if bad != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q\n got %#v\nwant %#v %v", text, got, want, bad)
	}
}

func TestPlainIsTheLibrary(t *testing.T) {
	for _, s := range plainSeeds() {
		sameAsLibrary(t, s)
		sameAsKubectl(t, s)
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range plainSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sameAsLibrary(t, text)
	})
}

func TestPlainTakesWhatUsersWrite(t *testing.T) {
	for _, s := range []string{plainSeeds()[0], plainSeeds()[1], plainSeeds()[2], plainSeeds()[5]} {
		if _, ok := parsePlain([]byte(s)); !ok {
			t.Errorf("left to the library: %q", s)
		}
	}
}
