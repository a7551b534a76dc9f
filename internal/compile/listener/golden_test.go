package listener_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/compile/compiletest"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/xdstype"
)

const scripts = "testdata/*.txtar"

// TestGolden runs the scripts: proxies and objects in, listeners and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, scripts) }

// played runs a test in the world of each script.
func played(t *testing.T, test func(*testing.T, *compiletest.World)) {
	files, err := filepath.Glob(scripts)
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { test(t, compiletest.Play(t, file)) })
	}
}

// TestEnvoyTakesThem shows a real Envoy what each proxy of every script gets.
func TestEnvoyTakesThem(t *testing.T) {
	played(t, func(t *testing.T, w *compiletest.World) {
		for _, seen := range w.ByProxy(xdstype.Listeners) {
			var listeners []*listenerv3.Listener
			var needs []string
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				listeners = append(listeners, readable(t, listenertest.Decode(t, name, seen[name])))
				needs = append(needs, seen[name].Needs...)
			}
			listenertest.Validate(t, listeners, needs)
		}
	})
}

// readable replaces the files that scripts name with files that exist, because Envoy reads them.
func readable(t *testing.T, l *listenerv3.Listener) *listenerv3.Listener {
	t.Helper()
	text, err := protojson.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "/etc/") {
		return l
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, body []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: body}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate, secret := file("c.pem", "CERTIFICATE", der), file("k.pem", "PRIVATE KEY", private)
	there := strings.NewReplacer("/etc/c.pem", certificate, "/etc/bad.pem", certificate, "/etc/k.pem", secret, "/etc/ca.pem", certificate)
	out := &listenerv3.Listener{}
	if err := protojson.Unmarshal([]byte(there.Replace(string(text))), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatEnvoyWaitsFor finds two mistakes that would stop a proxy silently: a listener that names an unpublished route configuration, and
// two listeners at one address.
func TestWhatEnvoyWaitsFor(t *testing.T) {
	played(t, func(t *testing.T, w *compiletest.World) {
		routes := w.ByProxy(xdstype.Routes)
		for id, seen := range w.ByProxy(xdstype.Listeners) {
			places := map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				l := listenertest.Decode(t, name, seen[name])
				if other := places[l.GetAddress().String()]; other != "" {
					t.Errorf("%s: %s and %s have one address", id, name, other)
				}
				places[l.GetAddress().String()] = name
				for _, r := range listenertest.Routes(l) {
					if routes[id][r] == nil {
						t.Errorf("%s: %s waits for the route configuration %q", id, name, r)
					}
				}
			}
		}
	})
}
