package kept_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/source/kept"
)

const (
	route = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop, labels: {a: b}}
spec: {hosts: [web.shop.svc.cluster.local], http: [{route: [{destination: {host: web}}], timeout: 3s}]}
`
	gateway = `{"apiVersion":"networking.istio.io/v1","kind":"Gateway","metadata":{"name":"edge","namespace":"shop",` +
		`"creationTimestamp":"2030-01-02T03:04:05Z","annotations":{"who":"me"}},` +
		`"spec":{"selector":{"app":"edge"},"servers":[{"port":{"number":80,"name":"http","protocol":"HTTP"},"hosts":["*"]}]}}`
)

func newDecoder(t testing.TB) *config.Decoder {
	t.Helper()
	out, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rules are objects as sources have them: with their author's text, and as a message.
func rules(t *testing.T, d *config.Decoder) []*config.Object {
	t.Helper()
	var out []*config.Object
	for _, text := range []string{"accessLogFile: /dev/stdout\n", route} {
		doc := config.Document{File: "etcd/default:/x", Line: 3, Text: []byte(text)}
		o, problems := d.Decode(doc)
		if text != route {
			o, problems = d.DecodeMeshConfig(doc)
		}
		if o == nil {
			t.Fatal(problems)
		}
		out = append(out, o)
	}
	o, problems := d.DecodeJSON("", []byte(gateway))
	if o == nil {
		t.Fatal(problems)
	}
	ref := o.Ref
	ref.File = "MCP/default"
	return append(out, o.At(config.Written{Ref: ref}))
}

func ofRules(all ...*config.Object) kept.Cluster {
	return kept.Cluster{Registry: registry, AsOf: asOf, Shards: []source.Shard{
		{Key: source.ShardKey{Kind: "objects"}, Whole: true, Rows: source.Rows{Objects: all}},
	}}
}

// Rules come back as they were, with the text and the place where they were written; a caller that keeps no rules writes
// none.
func TestRules(t *testing.T) {
	d := newDecoder(t)
	want := rules(t, d)
	got, err := kept.Decode(registry, encode(t, ofRules(want...)), d)
	if err != nil {
		t.Fatal(err)
	}
	objects := got.Shards[0].Rows.Objects
	if len(objects) != len(want) {
		t.Fatalf("%d objects come back; want %d", len(objects), len(want))
	}
	for i, o := range objects {
		if !config.Same(o, want[i]) || !o.Written().Equal(want[i].Written()) || o.Created != want[i].Created ||
			o.Labels != want[i].Labels || o.Annotations["who"] != want[i].Annotations["who"] {
			t.Errorf("%s comes back as %+v; want %+v", want[i].Key, o, want[i])
		}
	}
	none, err := kept.Encode(ofRules(want...), false)
	if err != nil || bytes.Contains(none, []byte("VirtualService")) {
		t.Errorf("rules are written where none are kept: %v\n%s", err, none)
	}
}

// signedRules are objects as somebody writes them who knows how.
func signedRules(t *testing.T, all ...map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal([]any{map[string]any{"Objects": all}})
	if err != nil {
		t.Fatal(err)
	}
	return signed(string(text))
}

// A rule that is read back is judged as a fresh one: an invalid rule is left out, and one with another name than its key's is an
// error.
func TestRulesAreJudged(t *testing.T) {
	d := newDecoder(t)
	key := func(kind, name string) map[string]any {
		return map[string]any{"Kind": kind, "Namespace": "shop", "Name": name}
	}
	good := map[string]any{"Key": key("VirtualService", "web"), "Text": route}
	for name, text := range map[string]string{
		"a field that there is not": strings.Replace(route, "timeout", "timeot", 1),
		"no YAML":                   "{",
		"nothing":                   "",
		"deep":                      strings.Repeat("[", 100_000),
	} {
		got, err := kept.Decode(registry, signedRules(t, map[string]any{"Key": key("VirtualService", "web"), "Text": text}, good), d)
		if err != nil || len(got.Shards[0].Rows.Objects) != 1 {
			t.Errorf("%s: %v, %+v", name, err, got.Shards)
		}
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: shop}\ntype: kubernetes.io/tls\ndata: {}\n"
	for name, row := range map[string]map[string]any{
		"another's name":     {"Key": key("VirtualService", "other"), "Text": route},
		"another's kind":     {"Key": key("Gateway", "web"), "Text": route},
		"a Secret":           {"Key": key("Secret", "web"), "Text": secret},
		"a line below zero":  {"Key": key("VirtualService", "web"), "Text": route, "Line": -1},
		"a place in no text": {"Key": key("VirtualService", "web"), "Text": route, "File": "a\x1b[2Jb"},
	} {
		if got, err := kept.Decode(registry, signedRules(t, row), d); err == nil {
			t.Errorf("%s: read as %+v", name, got.Shards[0].Rows.Objects)
		}
	}
	if _, err := kept.Decode(registry, signedRules(t, good), nil); err == nil {
		t.Error("rules are read where none are kept")
	}
}
