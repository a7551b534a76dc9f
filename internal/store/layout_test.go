package store_test

import (
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/servers"
	"fairway/internal/store"
)

// TestKeys: every kind's key leads back to its object, and to no other mesh's.
func TestKeys(t *testing.T) {
	l := store.Layout{Prefix: "/a/b", Mesh: "east"}
	for _, kind := range store.Kinds() {
		k := config.Key{Kind: kind, Namespace: "shop", Name: "front.v1"}
		if kind.ClusterWide() {
			k.Namespace = ""
		}
		if store.Single(kind) {
			k = config.Key{Kind: kind}
		}
		at := l.Key(k)
		if back, err := l.Object(at); err != nil || back != k {
			t.Errorf("%s is %s, %v", at, back, err)
		}
		if _, err := (store.Layout{}).Object(at); err == nil {
			t.Errorf("%s is of another mesh", at)
		}
		for _, bad := range []string{at + "/", at + "/x/y", strings.ToUpper(at), at + "\x00",
			strings.Replace(at, "/"+kind.Word(), "/"+kind.Word()+"s", 1)} {
			if back, err := l.Object(bad); err == nil {
				t.Errorf("%q is %s", bad, back)
			}
		}
	}
	if got := (store.Layout{}).Key(config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}); got !=
		"/fairway/default/networking.istio.io/Gateway/shop/front" {
		t.Error(got)
	}
	if got := (store.Layout{}).Key(config.Key{Kind: config.MeshConfig}); got != "/fairway/default/mesh.istio.io/MeshConfig" {
		t.Error(got)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("networking.istio.io/Gateway/shop/front")
	f.Fuzz(func(t *testing.T, rest string) {
		l := store.Layout{}
		at := l.Root() + rest
		if k, err := l.Object(at); err == nil && l.Key(k) != at {
			t.Errorf("%q is %s, whose key is %q", at, k, l.Key(k))
		}
	})
}

// TestMistakes: an error about the configuration of etcd says what to write instead.
func TestMistakes(t *testing.T) {
	for want, r := range map[string]servers.Reach{
		"urls: there is none":            {},
		"want https://HOST:PORT":         {URLs: []string{"https://etcd"}},
		"all of them to be https://":     {URLs: []string{"https://a:1", "http://b:1"}},
		"they are for urls that are":     {URLs: []string{"http://a:1"}, CAFile: "x"},
		"is asked in plaintext":          {URLs: []string{"http://a:1"}, Username: "u", PasswordFile: "p"},
		"username, passwordFile: want":   {URLs: []string{"https://a:1"}, Username: "u"},
		"certFile, keyFile: one of them": {URLs: []string{"https://a:1"}, CertFile: "u"},
	} {
		if err := (store.Reach{Reach: r}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	for _, l := range []store.Layout{{Prefix: "a"}, {Prefix: "/a/"}, {Prefix: "/a//b"}, {Prefix: "/a b"}, {Mesh: "A"}, {Mesh: "a/b"}} {
		if l.Validate() == nil {
			t.Errorf("%+v is valid", l)
		}
	}
}

// TestStored: fields that are written into an object, or left out of it, change no other part of it.
func TestStored(t *testing.T) {
	key := config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}
	for text, want := range map[string]string{
		"kind: Gateway\nmetadata:\n  name: front # here\n  uid: x\nspec: {a: on}\n": "kind: Gateway\nmetadata:\n  name: front # here\n" +
			"  creationTimestamp: \"2020-01-02T03:04:05Z\"\n  namespace: shop\nspec: {a: on}\n",
		`{"kind": "Gateway", "metadata": {"name": "front", "resourceVersion": "7"}, "status": {}, "spec": {"a": "1", "b": [], "on": "x"}}`: `kind: Gateway
metadata:
  name: "front"
  creationTimestamp: "2020-01-02T03:04:05Z"
  namespace: shop
spec:
  a: "1"
  b: []
  "on": "x"
`,
	} {
		got, err := store.Stored(config.Document{Text: []byte(text)}, key, "2020-01-02T03:04:05Z")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if strings.ReplaceAll(string(got), `kind: "Gateway"`, "kind: Gateway") != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for _, bad := range []string{"[]", "a", "metadata: 3", "x: &x {name: front}\nmetadata: *x\n", "kind: [",
		"metadata: {name: a}\nmetadata: {name: b}"} {
		if got, err := store.Stored(config.Document{Text: []byte(bad)}, key, ""); err == nil {
			t.Errorf("%q is stored as %s", bad, got)
		}
	}
}
