// Package place reads and writes the URL paths under which API servers ask for the injection of pods:
//
//	/inject[/key/<key>][/cluster/<name>][/net/<name>]
//
// The pairs may come in any order. Other pairs are allowed and have no meaning here.
package place

import (
	"net/url"
	"strings"
)

const page = "/inject"

// Bounds of a key, in bytes. A client that does not know a key must not be able to guess it.
const (
	shortestKey = 20
	longestKey  = 64
)

// Place is the content of a webhook's path.
type Place struct {
	Cluster, Network string // where the pod will run; empty: the control plane's own cluster and network
	Key              string // that API servers show; empty: none
}

// Parse reads a path. ok is false if it does not lead to the injection of pods.
func Parse(path string) (p Place, ok bool) {
	rest, ok := cut(path)
	if !ok {
		return p, false
	}
	words := strings.Split(rest, "/")
	for n := 0; n+1 < len(words); n += 2 {
		switch words[n] {
		case "cluster":
			p.Cluster = words[n+1]
		case "net":
			p.Network = words[n+1]
		case "key":
			p.Key = words[n+1]
		}
	}
	return p, true
}

// cut returns what follows /inject/, without slashes at its ends.
func cut(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, page)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.Trim(rest, "/"), true
}

// IsKey reports whether a text may be a key: 20 to 64 lower-case letters and digits, which is what the API server allows in the path of
// a webhook.
func IsKey(key string) bool {
	if len(key) < shortestKey || len(key) > longestKey {
		return false
	}
	for _, c := range []byte(key) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// WithKey returns a path of injection with a key in place of the one that it had.
func WithKey(path, key string) string {
	rest, _ := cut(path)
	out := page
	if key != "" {
		out += "/key/" + key
	}
	words := strings.Split(rest, "/")
	for n := 0; n < len(words); n += 2 {
		if words[n] != "key" && rest != "" {
			out += "/" + strings.Join(words[n:min(n+2, len(words))], "/")
		}
	}
	return out
}

// OfURL returns the path of a webhook's URL; empty: it is not a URL.
func OfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Path
}

// URLWithKey is WithKey for a whole URL.
func URLWithKey(text, key string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	u.Path, u.RawPath = WithKey(u.Path, key), ""
	return u.String(), nil
}
