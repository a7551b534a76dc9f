package jwks

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The most that is read of one set.
const (
	MostKeys  = 100
	MostBytes = 1 << 20
)

// Source is the origin of a set. It is comparable.
type Source struct {
	URI string // of the set; empty: the issuer says, by OpenID Connect Discovery
	// Issuer is set only if URI is empty: then the issuer is asked. Otherwise it is empty, because several issuers may share a set.
	Issuer  string
	Timeout time.Duration // of one try
}

// Compare orders sources.
func Compare(a, b Source) int {
	return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Timeout, b.Timeout))
}

func (s Source) String() string { return cmp.Or(s.URI, s.Issuer) }

// Answer is the state of a source's keys. It is comparable.
type Answer struct {
	Keys string // a set in Text's form; empty: there never were any
	// Failing is the reason why the last try to get the keys failed; empty: it succeeded.
	Failing string
	Good    time.Time // while it fails: time of the last success
}

// Parse reads a set that comes from elsewhere: one of RFC 7517, or the older form that names certificates, {"key's name": "PEM"}. It skips
// keys of unknown kinds, keys for other purposes, and keys that are not public.
func Parse(text []byte) ([]jose.JSONWebKey, error) { return parse(text, (*jose.JSONWebKey).IsPublic) }

// ParseOwn reads a set that was written where it is used: it may also have shared secrets that sign tokens.
func ParseOwn(text []byte) ([]jose.JSONWebKey, error) {
	return parse(text, func(k *jose.JSONWebKey) bool {
		_, secret := k.Key.([]byte)
		return secret || k.IsPublic()
	})
}

func parse(text []byte, may func(*jose.JSONWebKey) bool) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	out := certificates(text)
	for _, one := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(one, &k) == nil && may(&k) && usable(k) {
			out = append(out, k)
		}
		if len(out) >= MostKeys {
			break
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it holds no public key for signatures")
	}
	return out, nil
}

// certificates reads keys of certificates; nil: the text is nothing but names and certificates.
func certificates(text []byte) (out []jose.JSONWebKey) {
	var named map[string]string
	if json.Unmarshal(text, &named) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		block, _ := pem.Decode([]byte(named[name]))
		if block == nil || len(out) == MostKeys {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			if k := (jose.JSONWebKey{Key: c.PublicKey, KeyID: name, Use: "sig"}); usable(k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// Text writes keys as a set with only the fields that a verifier needs: equal keys in any order are equal texts.
func Text(keys []jose.JSONWebKey) (string, error) {
	texts := make([]json.RawMessage, 0, len(keys))
	for _, k := range keys {
		text, err := json.Marshal(jose.JSONWebKey{Key: k.Key, KeyID: k.KeyID, Algorithm: k.Algorithm, Use: k.Use})
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b json.RawMessage) int { return cmp.Compare(string(a), string(b)) })
	out, err := json.Marshal(map[string][]json.RawMessage{"keys": texts})
	return string(out), err
}

// usable reports whether signatures can be verified with a key, by proxies too: Envoy refuses every resource with a set without such a key.
func usable(k jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" {
		return false
	}
	if _, secret := k.Key.([]byte); !secret && !k.Valid() { // Valid knows only public keys
		return false
	}
	algorithms := map[string]bool{"": true}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < 1024 {
			return false
		}
		for _, a := range []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512} {
			algorithms[string(a)] = true
		}
	case *ecdsa.PublicKey:
		of := map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512}
		algorithms[string(of[key.Params().Name])] = true
	case ed25519.PublicKey:
		algorithms[string(jose.EdDSA)] = true
	case []byte:
		for _, a := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
			algorithms[string(a)] = true
		}
	default:
		return false
	}
	return algorithms[k.Algorithm]
}

// UnmatchableKeySet is a set that verifies no token, for proxies: Envoy accepts no set without a key. Its key is a point of the curve that
// was found by a hash, so its private key is unknown.
var UnmatchableKeySet = sync.OnceValue(func() string {
	curve := elliptic.P256()
	for i := range 256 {
		hash := sha256.Sum256([]byte{'n', 'o', 'b', 'o', 'd', 'y', byte(i)})
		x, y := elliptic.UnmarshalCompressed(curve, append([]byte{2}, hash[:]...))
		if x == nil {
			continue
		}
		key, err := ecdsa.ParseUncompressedPublicKey(curve, elliptic.Marshal(curve, x, y)) //nolint:staticcheck // no other names a point
		if err != nil {
			continue
		}
		if text, err := Text([]jose.JSONWebKey{{Key: key, KeyID: "nobody's"}}); err == nil {
			return text
		}
	}
	panic("no point of 256 is on the curve")
})
