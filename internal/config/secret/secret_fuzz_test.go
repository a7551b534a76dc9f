package secret_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/config"
	envoytls "fairway/internal/envoy/tls"
	"fairway/internal/mesh"
)

// secretValues are the values of a Secret, in the order of FuzzSecret's arguments.
type secretValues struct{ chain, key, ca, crl, staple []byte }

func (v secretValues) document(kind, holders string) []byte {
	data := map[string]string{}
	for name, value := range map[string][]byte{
		"tls.crt":         v.chain,
		"tls.key":         v.key,
		"ca.crt":          v.ca,
		"ca.crl":          v.crl,
		"tls.ocsp-staple": v.staple,
	} {
		if len(value) > 0 {
			data[name] = base64.StdEncoding.EncodeToString(value)
		}
	}
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data,
		"metadata": map[string]any{"name": "web", "namespace": "edge", "annotations": map[string]any{"fairway/service-accounts": holders}},
	})
	return text
}

// FuzzSecret: any Secret becomes either a credential that Envoy's own message accepts, or nothing with a reason. Neither the reasons nor
// pages show a key.
func FuzzSecret(f *testing.F) {
	seed := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("testdata", "fuzz-seeds", name))
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	chain, key, crl := seed("chain.pem"), seed("key.pem"), seed("crl.pem")
	f.Add(chain, key, []byte{}, []byte{}, []byte{}, config.TLSSecret, "web")
	f.Add(chain, key, chain, crl, []byte("\x30\x03\x0a\x01\x00"), "", "*")
	f.Add([]byte{}, []byte{}, chain, crl, []byte{}, "Opaque", "a,b")
	f.Add(chain, []byte("-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n"), []byte{}, []byte{}, []byte{},
		config.TLSSecret, "a/b")
	decoder, err := config.NewDecoder(config.Options{Now: func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, chain, key, ca, crl, staple []byte, kind, holders string) {
		v := secretValues{chain, key, ca, crl, staple}
		object, problems := decoder.Decode(config.Document{File: "secret.yaml", Line: 1, Text: v.document(kind, holders)})
		wrong := checkProblems(t, problems, key)
		if object == nil {
			if !wrong {
				t.Fatalf("a Secret is refused without a reason: %v", problems)
			}
			return
		}
		shown, err := protojson.Marshal(object.Spec)
		if err != nil || len(key) > 16 && bytes.Contains(shown, key) || object.Text != nil {
			t.Fatalf("what is shown: %s, %v", shown, err)
		}
		checkCredential(t, object.Credential, v)
	})
}

// checkProblems reports whether one of the problems is an error. All are printable, and none contains the key.
func checkProblems(t *testing.T, problems []mesh.Problem, key []byte) (wrong bool) {
	t.Helper()
	if len(problems) > 101 {
		t.Fatalf("%d problems of one document", len(problems))
	}
	for _, p := range problems {
		wrong = wrong || p.Severity == mesh.Error
		if text := p.Message + p.Fix + p.Field; len(p.Message) > 4<<10 || !utf8.ValidString(text) ||
			len(key) > 16 && strings.Contains(text, string(key)) {
			t.Fatalf("a problem says %q", text)
		}
	}
	return wrong
}

// checkCredential checks that Envoy's messages accept the credential, and that it is the one that was written.
func checkCredential(t *testing.T, c *config.Credential, v secretValues) {
	t.Helper()
	if (c.Chain == nil) != (c.Key.PEM() == nil) || c.Chain == nil && c.Staple != nil || c.CA == nil && c.CRL != nil {
		t.Fatalf("half a credential: chain %d, key %d, staple %d, CA %d, CRL %d bytes", len(c.Chain), len(c.Key.PEM()),
			len(c.Staple), len(c.CA), len(c.CRL))
	}
	for _, pair := range [][2][]byte{{c.Chain, v.chain}, {c.Key.PEM(), v.key}, {c.Staple, v.staple}, {c.CA, v.ca}, {c.CRL, v.crl}} {
		if pair[0] != nil && !bytes.Equal(pair[0], pair[1]) {
			t.Fatalf("%q was written, and %q is read", pair[1], pair[0])
		}
	}
	if strings.Count(string(c.Holders), ",") > 64 || !utf8.ValidString(string(c.Holders)) {
		t.Fatalf("holders %q", c.Holders)
	}
	if c.Chain != nil {
		if _, err := tls.X509KeyPair(c.Chain, c.Key.PEM()); err != nil {
			t.Fatalf("a pair that is none: %v", err)
		}
		sent(t, envoytls.Certificate("edge/web", c.Chain, c.Key.PEM(), c.Staple))
	}
	if c.CA != nil {
		sent(t, envoytls.Authorities("edge/web-cacert", c.CA, c.CRL))
	}
}

// sent has a message go over the wire.
func sent(t *testing.T, m *tlsv3.Secret) {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := &tlsv3.Secret{}
	if err := proto.Unmarshal(raw, again); err != nil || !proto.Equal(m, again) || again.ValidateAll() != nil {
		t.Fatalf("%v is sent, and %v arrives: %v, %v", m, again, err, again.ValidateAll())
	}
}
