package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLists: the items of a list are documents, with the lines that they have in the file.
func TestLists(t *testing.T) {
	const block = `# what kubectl get -o yaml writes
apiVersion: v1
items:
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: a, namespace: shop}
  spec:
    hosts: [a]

    # a remark
    http: [{rout: []}]
- kind: Gateway
  metadata:
    name: b
kind: List
metadata: {resourceVersion: ""}
---
kind: Sidecar
metadata: {name: c}
`
	const flow = `{
  "kind": "VirtualServiceList",
  "items": [
    {"kind": "VirtualService",
     "metadata": {"name": "a"}},
    {"kind": "VirtualService", "metadata": {"name": "b"}}
  ]
}`
	show := func(text string) (out []string) {
		for _, d := range Split("x.yaml", []byte(text)) {
			out = append(out, fmt.Sprintf("%d: %q", d.Line, d.Text))
		}
		return out
	}
	want := []string{
		`4: "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a, namespace: shop}\nspec:\n  hosts: [a]\n\n  # a remark\n  http: [{rout: []}]\n"`,
		`12: "kind: Gateway\nmetadata:\n  name: b\n"`,
		`18: "kind: Sidecar\nmetadata: {name: c}\n"`,
	}
	if diff := cmp.Diff(want, show(block)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{
		`4: "{\"kind\": \"VirtualService\",\n     \"metadata\": {\"name\": \"a\"}}"`,
		`6: "{\"kind\": \"VirtualService\", \"metadata\": {\"name\": \"b\"}}"`,
	}
	if diff := cmp.Diff(want, show(flow)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, problems := newTestDecoder(t).Decode(Split("x.yaml", []byte(block))[0])
	if len(problems) == 0 || problems[0].Line != 11 || !strings.Contains(problems[0].Message, "rout") {
		t.Errorf("%+v, want the unknown field of line 11", problems)
	}
	for _, not := range []string{"kind: List\n", "kind: List\nitems: 3\n", "kind: List\nitems: [\n", "spec: {kind: List}\nitems: []\n"} {
		if got := Split("x.yaml", []byte(not)); len(got) != 1 {
			t.Errorf("%q is %d documents", not, len(got))
		}
	}
}

// TestAliasesOfAListAreRefused: an item that borrows too much of its list is a problem of its own.
func TestAliasesOfAListAreRefused(t *testing.T) {
	text := "kind: List\nx: &a [" + strings.Repeat("1,", 5000) + "1]\nitems:\n" + strings.Repeat("- b: *a\n", 100)
	docs := Split("x.yaml", []byte(text))
	if len(docs) != 100 {
		t.Fatalf("%d documents", len(docs))
	}
	o, problems := newTestDecoder(t).Decode(docs[99])
	if o != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "expand to too much") {
		t.Errorf("%v %v", o, problems)
	}
}
