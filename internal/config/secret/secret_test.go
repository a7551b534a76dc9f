package secret_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/config"
	"fairway/internal/identity"
	"fairway/internal/mesh"
)

// issued is a certificate that a test made, with its key, in PEM.
type issued struct{ cert, key string }

var when = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func issue(t *testing.T, key crypto.Signer, until time.Time) issued {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: "shop.example"},
		NotBefore:    when.Add(-time.Hour),
		NotAfter:     until,
		DNSNames:     []string{"shop.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return issued{
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}

func ec(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func revoked(t *testing.T) string {
	t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader,
		&x509.RevocationList{Number: big.NewInt(1), ThisUpdate: when, NextUpdate: when.Add(time.Hour)},
		&x509.Certificate{SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}, ec(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// secretText writes a Secret with values in the clear or in base64; a key may be in both.
func secretText(kind string, data, clear map[string]string) string {
	encoded := map[string]string{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	text, _ := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "data": encoded, "stringData": clear,
		"metadata": map[string]any{"name": "web", "namespace": "edge", "annotations": map[string]any{"last-applied": fmt.Sprint(clear)}},
	}, "", " ")
	return string(text)
}

func decodeSecret(t *testing.T, text string) (*config.Object, []mesh.Problem) {
	t.Helper()
	d, err := config.NewDecoder(config.Options{Now: func() time.Time { return when }})
	if err != nil {
		t.Fatal(err)
	}
	return d.Decode(config.Document{File: "secret.yaml", Line: 1, Text: []byte(text)})
}

func TestSecretForms(t *testing.T) {
	web, other := issue(t, ec(t, elliptic.P256()), when.Add(time.Hour)), issue(t, ec(t, elliptic.P384()), when.Add(time.Hour))
	crl := revoked(t)
	staple := "\x30\x03\x0a\x01\x00"
	for name, c := range map[string]struct {
		kind        string
		data, clear map[string]string
		want        config.Credential // except the key
		key         string
	}{
		"kubernetes.io/tls": {
			config.TLSSecret,
			map[string]string{"tls.crt": web.cert, "tls.key": web.key},
			nil,
			config.Credential{Chain: []byte(web.cert)},
			web.key,
		},
		"generic": {
			"Opaque",
			map[string]string{"cert": web.cert, "key": web.key},
			nil,
			config.Credential{Chain: []byte(web.cert)},
			web.key,
		},
		"generic goes first": {
			"",
			map[string]string{"cert": web.cert, "key": web.key, "tls.crt": other.cert, "tls.key": other.key},
			nil,
			config.Credential{Chain: []byte(web.cert)},
			web.key,
		},
		"in the clear": {
			config.TLSSecret,
			nil,
			map[string]string{"tls.crt": web.cert, "tls.key": web.key},
			config.Credential{Chain: []byte(web.cert)},
			web.key,
		},
		"the clear one holds": {
			config.TLSSecret,
			map[string]string{"tls.crt": other.cert, "tls.key": other.key},
			map[string]string{"tls.crt": web.cert, "tls.key": web.key},
			config.Credential{Chain: []byte(web.cert)},
			web.key,
		},
		"with authorities": {config.TLSSecret, map[string]string{
			"tls.crt": web.cert,
			"tls.key": web.key,
			"ca.crt":  other.cert,
			"ca.crl":  crl,
		}, nil,
			config.Credential{Chain: []byte(web.cert), CA: []byte(other.cert), CRL: []byte(crl)}, web.key},
		"authorities alone": {
			"Opaque",
			map[string]string{"cacert": other.cert, "crl": crl},
			nil,
			config.Credential{CA: []byte(other.cert), CRL: []byte(crl)},
			"",
		},
		"a chain": {
			"Opaque",
			map[string]string{"cert": web.cert + other.cert, "key": web.key},
			nil,
			config.Credential{Chain: []byte(web.cert + other.cert)},
			web.key,
		},
		"a staple": {
			config.TLSSecret,
			map[string]string{"tls.crt": web.cert, "tls.key": web.key, "tls.ocsp-staple": staple},
			nil,
			config.Credential{Chain: []byte(web.cert), Staple: []byte(staple)},
			web.key,
		},
		"about something else": {"Opaque", map[string]string{"password": "x", "key": "y"}, nil, config.Credential{}, ""},
		"about something else again": {
			"kubernetes.io/dockerconfigjson",
			map[string]string{".dockerconfigjson": "{}"},
			nil,
			config.Credential{},
			"",
		},
		"what registries are shown": {
			"kubernetes.io/dockerconfigjson",
			map[string]string{".dockerconfigjson": registries},
			nil,
			config.Credential{Registries: identity.MakePrivate([]byte(registries))},
			"",
		},
	} {
		o, problems := decodeSecret(t, secretText(c.kind, c.data, c.clear))
		if o == nil || len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		got := o.Credential
		if string(got.Registries.PEM()) != string(c.want.Registries.PEM()) {
			t.Errorf("%s: registries are shown something else", name)
		}
		if string(got.Chain) != string(c.want.Chain) || string(got.CA) != string(c.want.CA) || string(got.CRL) != string(c.want.CRL) ||
			string(got.Staple) != string(c.want.Staple) ||
			string(got.Key.PEM()) != c.key {
			t.Errorf("%s: got another credential: %s", name, o.Spec)
		}
	}
}

// registries are the credentials for two registries, in Docker's form.
const registries = `{"auths": {"r.example.com": {"auth": "bWU6aHVzaC1odXNo"}, "s.example.com": {"username": "me", "password": "hush-hush"}}}`

// TestSecretHash: a changed key or authority is a changed object, even if its public part stays the same.
func TestSecretHash(t *testing.T) {
	key := ec(t, elliptic.P256())
	web := issue(t, key, when.Add(time.Hour))
	seen := map[uint64]string{}
	for _, data := range []map[string]string{
		{"tls.crt": web.cert, "tls.key": web.key}, {"tls.crt": web.cert + "\n", "tls.key": web.key},
		{"tls.crt": web.cert, "tls.key": web.key + "\n"},
		{"tls.crt": web.cert, "tls.key": web.key, "ca.crt": web.cert},
		{".dockerconfigjson": registries}, {".dockerconfigjson": strings.ReplaceAll(registries, "hush-hush", "psst-psst")},
	} {
		kind := config.TLSSecret
		if data["tls.key"] == "" {
			kind = "kubernetes.io/dockerconfigjson"
		}
		o, _ := decodeSecret(t, secretText(kind, data, nil))
		if other, dup := seen[o.Hash]; dup {
			t.Errorf("%q and %q have one hash", data, other)
		}
		seen[o.Hash] = fmt.Sprint(data)
	}
}

func TestBadSecrets(t *testing.T) {
	web, other := issue(t, ec(t, elliptic.P256()), when.Add(time.Hour)), issue(t, ec(t, elliptic.P256()), when.Add(time.Hour))
	old := issue(t, ec(t, elliptic.P256()), when.Add(-time.Minute))
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, strange := issue(t, small, when.Add(time.Hour)), issue(t, edwards, when.Add(time.Hour))
	pair := func(cert, key string) string {
		return secretText(config.TLSSecret, map[string]string{"tls.crt": cert, "tls.key": key}, nil)
	}
	for name, c := range map[string]struct {
		text string
		want string // severity code field
		line int
	}{
		"key of another": {pair(web.cert, other.key), "error KeyMismatch data.tls.key", 5},
		"no key":         {secretText(config.TLSSecret, map[string]string{"tls.crt": web.cert}, nil), "error Missing data", 3},
		"no certificate": {secretText("Opaque", nil, map[string]string{"key": web.key}), "error Missing stringData", 12},
		"cut off":        {pair(web.cert[:len(web.cert)/2], web.key), "error BadCertificate data.tls.crt", 4},
		"broken inside":  {pair(strings.Replace(web.cert, "MII", "AII", 1), web.key), "error BadCertificate data.tls.crt", 4},
		"key cut off":    {pair(web.cert, web.key[:40]), "error BadKey data.tls.key", 5},
		"encrypted":      {pair(web.cert, strings.ReplaceAll(web.key, "PRIVATE", "ENCRYPTED PRIVATE")), "error BadKey data.tls.key", 5},
		"weak":           {pair(weak.cert, weak.key), "error WeakKey data.tls.key", 5},
		"not taken":      {pair(strange.cert, strange.key), "error WeakKey data.tls.key", 5},
		"expired":        {pair(old.cert, old.key), "warning Expired data.tls.crt", 4},
		"bad authority":  {secretText("Opaque", map[string]string{"cacert": "x"}, nil), "error BadCertificate data.cacert", 4},
		"bad list": {
			secretText("Opaque", map[string]string{"cacert": web.cert, "crl": web.cert}, nil),
			"error BadRevocationList data.crl", 5,
		},
		"bad staple": {
			secretText(config.TLSSecret, map[string]string{"tls.crt": web.cert, "tls.key": web.key, "tls.ocsp-staple": "x"}, nil),
			"error BadStaple data.tls.ocsp-staple", 6,
		},
		"registries without what they are shown": {
			secretText("kubernetes.io/dockerconfigjson", nil, map[string]string{"config.json": registries}), "error Missing data", 3,
		},
		"registries of no form": {
			secretText("kubernetes.io/dockerconfigjson", nil, map[string]string{".dockerconfigjson": `{"auths": [1]}`}),
			"error BadValue stringData..dockerconfigjson", 13,
		},
		"registries too many": {
			secretText("kubernetes.io/dockerconfigjson", nil, map[string]string{
				".dockerconfigjson": `{"auths": {"a": {"auth": "` + strings.Repeat("x", 64<<10) + `"}}}`,
			}),
			"error TooMuch stringData..dockerconfigjson", 13,
		},
		"not base64": {
			strings.Replace(pair(web.cert, web.key), `"tls.key": "`, `"tls.key": "%`, 1),
			"error BadBase64 data.tls.key", 5,
		},
		"not a string": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  key: 12345678\n",
			"error WrongType stringData.key", 5,
		},
		"another version":  {"apiVersion: v2\nkind: Secret\nmetadata: {name: web}\n", "error UnknownVersion apiVersion", 1},
		"misspelt":         {"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringdata: {}\n", "error UnknownField stringdata", 4},
		"broken YAML":      {"apiVersion: v1\nkind: Secret\nmetadata:\n  name: web\nstringData:\n  key: [\n", "error Syntax ", 6},
		"a list unrelated": {"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata: [x]\n", "error WrongType data", 4},
	} {
		o, problems := decodeSecret(t, c.text)
		if len(problems) != 1 {
			t.Errorf("%s: %d problems: %v", name, len(problems), problems)
			continue
		}
		p := problems[0]
		if got := strings.Join([]string{p.Severity.String(), p.Code, p.Field}, " "); got != c.want || p.Line != c.line ||
			p.Object.Name != "web" {
			t.Errorf("%s: got %q at line %d of %s, want %q at %d", name, got, p.Line, p.Object, c.want, c.line)
		}
		if (p.Severity == mesh.Error) != (o == nil) {
			t.Errorf("%s: object %v", name, o)
		}
		wantHidden(t, name, p.String(), web.key, other.key, weak.key, "12345678")
	}
}

// wantHidden fails if a text has anything of one of the keys, in the clear, in base64 or as numbers.
func wantHidden(t *testing.T, what, text string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		body := strings.TrimPrefix(key, "-----BEGIN PRIVATE KEY-----\n")
		body = body[:min(40, len(body))]
		numbers := strings.Trim(fmt.Sprintf("%d", []byte(body)), "[]")
		for _, form := range []string{body, base64.StdEncoding.EncodeToString([]byte(body)), fmt.Sprintf("%x", body), numbers} {
			if len(form) > 7 && strings.Contains(text, form) {
				t.Errorf("%s shows a key: %s", what, text)
			}
		}
	}
}

// TestSecretsHide: an object with a key never shows it when it is printed, logged or encoded.
func TestSecretsHide(t *testing.T) {
	web := issue(t, ec(t, elliptic.P256()), when.Add(time.Hour))
	for name, text := range map[string]string{
		"data":       secretText(config.TLSSecret, map[string]string{"tls.crt": web.cert, "tls.key": web.key}, nil),
		"stringData": secretText(config.TLSSecret, nil, map[string]string{"tls.crt": web.cert, "tls.key": web.key}),
		"unused":     secretText("Opaque", nil, map[string]string{"id_ed25519": web.key}),
		"registries": secretText("kubernetes.io/dockerconfigjson", nil, map[string]string{".dockerconfigjson": registries}),
	} {
		o, _ := decodeSecret(t, text)
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
			fmt.Fprintf(&out, verb+verb+verb, o, *o, o.Credential)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "object", o, "credential", o.Credential)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "object", o, "credential", o.Credential)
		spec, err := protojson.Marshal(o.Spec)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(spec)
		if name == "registries" {
			if !strings.Contains(string(spec), "s.example.com") || strings.Contains(out.String(), "hush-hush") ||
				strings.Contains(out.String(), "bWU6aHVzaC1odXNo") {
				t.Errorf("of what registries are shown more is told than their names, or less: %s", out.String())
			}
			continue
		}
		if name != "unused" && !strings.Contains(string(spec), "shop.example") {
			t.Errorf("%s: nothing is told of the certificate: %s", name, spec)
		}
		wantHidden(t, name, out.String(), web.key)
	}
}

// TestConfigMaps: of a ConfigMap the authorities are read and nothing else, neither a certificate's key nor who may have it.
func TestConfigMaps(t *testing.T) {
	web := issue(t, ec(t, elliptic.P256()), when.Add(time.Hour))
	text := func(more string, data map[string]string) string {
		out := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n" + more + "data:\n"
		for _, k := range slices.Sorted(maps.Keys(data)) {
			out += fmt.Sprintf("  %s: %q\n", k, data[k])
		}
		return out
	}
	for name, c := range map[string]struct {
		text, ca, crl, wrong string
	}{
		"authorities": {text("", map[string]string{"ca.crt": web.cert, "other": "x"}), web.cert, "", ""},
		"with a list": {
			text("binaryData: {x: eA==}\n", map[string]string{"ca.crt": web.cert, "ca.crl": revoked(t)}), web.cert, revoked(t), "",
		},
		"something else":  {text("", map[string]string{"mesh": "x"}), "", "", ""},
		"a pair":          {text("", map[string]string{"tls.crt": web.cert, "tls.key": web.key}), "", "", ""},
		"no certificate":  {text("", map[string]string{"ca.crt": "x"}), "", "", "error BadCertificate data.ca.crt"},
		"a Secret's type": {text("type: Opaque\n", nil), "", "", "error UnknownField type"},
		"too large":       {text("", map[string]string{"x": strings.Repeat("x", 1<<20)}), "", "", "error TooMuch data"},
	} {
		o, problems := decodeSecret(t, c.text)
		var wrong string
		for _, p := range problems {
			wrong += strings.Join([]string{p.Severity.String(), p.Code, p.Field}, " ")
		}
		if wrong != c.wrong || (o == nil) != (c.wrong != "") {
			t.Errorf("%s: %q, want %q", name, wrong, c.wrong)
			continue
		}
		if o == nil {
			continue
		}
		got := o.Credential
		if string(got.CA) != c.ca || (got.CRL != nil) != (c.crl != "") || got.Chain != nil || got.Key.PEM() != nil || o.Text != nil {
			t.Errorf("%s: got another credential: %s", name, o.Spec)
		}
	}
}

// TestParameters: of a ConfigMap the parameters of Gateways are kept, in bounded size, and the names of its other keys. They are part of
// the object's content.
func TestParameters(t *testing.T) {
	read := func(data string) *config.Object {
		o, _ := decodeSecret(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: "+data+"\n")
		return o
	}
	o := read("{deployment: a, more: b, less: c}")
	c := o.Credential
	if len(c.Parameters) != 1 || c.Parameters["deployment"] != "a" || !slices.Equal(c.OtherKeys, []string{"less", "more"}) {
		t.Errorf("got %+v", c)
	}
	if read("{deployment: b, more: b, less: c}").Hash == o.Hash {
		t.Error("another value makes the same object")
	}
	if read("{service: "+strings.Repeat("x", 64<<10+1)+"}") != nil {
		t.Error("a value that is too long is taken")
	}
}
