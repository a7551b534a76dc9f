package place_test

import (
	"strings"
	"testing"

	"fairway/internal/webhook/place"
)

const key = "0123456789abcdefghij"

func TestPaths(t *testing.T) {
	for path, want := range map[string]place.Place{
		"/inject":                                  {},
		"/inject/":                                 {},
		"/inject/cluster/east":                     {Cluster: "east"},
		"/inject/cluster/east/net/n1":              {Cluster: "east", Network: "n1"},
		"/inject/cluster/east/net/n1/key/" + key:   {Cluster: "east", Network: "n1", Key: key},
		"/inject/key/" + key + "/other/x/net/n1":   {Network: "n1", Key: key},
		"/inject/key/" + key + "/cluster/east/net": {Cluster: "east", Key: key},
	} {
		got, ok := place.Parse(path)
		if !ok || got != want {
			t.Errorf("%s: %+v, %t", path, got, ok)
		}
		// A key takes the place of another, and everything else stays.
		want.Key = strings.Repeat("z", 30)
		if got, ok := place.Parse(place.WithKey(path, want.Key)); !ok || got != want {
			t.Errorf("%s with a key: %s", path, place.WithKey(path, want.Key))
		}
		want.Key = ""
		if got, ok := place.Parse(place.WithKey(path, "")); !ok || got != want {
			t.Errorf("%s without a key: %s", path, place.WithKey(path, ""))
		}
	}
	for _, path := range []string{"", "/", "/validate", "/injected", "inject"} {
		if got, ok := place.Parse(path); ok {
			t.Errorf("%q: %+v", path, got)
		}
	}
}

func TestKeys(t *testing.T) {
	for text, want := range map[string]bool{
		key: true, "": false, key[1:]: false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
		strings.ToUpper(key): false, key + "/": false, key + "é": false,
	} {
		if place.IsKey(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}

func TestURLs(t *testing.T) {
	got, err := place.URLWithKey("https://istiod.example:15017/inject/cluster/east", key)
	if want := "https://istiod.example:15017/inject/key/" + key + "/cluster/east"; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if got := place.OfURL(got); got != "/inject/key/"+key+"/cluster/east" {
		t.Error(got)
	}
	if got, err := place.URLWithKey("https://exa mple/inject", key); err == nil {
		t.Error(got)
	}
}
