package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/config"
	"fairway/internal/ctl"
	"fairway/internal/snapshot"
	"fairway/test/ads"
	"fairway/test/plane"
)

const meshOfReport = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.12, labels: {version: v1}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews], http: [{timeout: 7s, route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: lost, namespace: shop}
spec: {hosts: [lost.example], gateways: [none], http: [{route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [shop.example], tls: {mode: SIMPLE, credentialName: front}}]
---
`

// TestBugReportAndReplay: an archive has no secret, and a control plane that replays it sends the same bytes to the same proxies, and has
// the same problems.
func TestBugReportAndReplay(t *testing.T) {
	chain, key := newCertificate(t)
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: front, namespace: shop}\ntype: kubernetes.io/tls\n"+
		"data: {tls.crt: %s, tls.key: %s}\n", base64.StdEncoding.EncodeToString(chain), base64.StdEncoding.EncodeToString(key))
	before := plane.Options()
	before.Grace = 0 // nothing waits at the door of a replay
	p := plane.Start(t, before)
	p.Apply(t, "mesh.yaml", meshOfReport+secret)
	all := []plane.Proxy{
		{Name: "web-1", Namespace: "shop", IP: "10.0.0.8"},
		{Name: "reviews-1", Namespace: "shop", IP: "10.0.0.12", SotW: true},
		{Name: "edge-1", Namespace: "shop", IP: "10.0.0.9", Type: "router", Labels: map[string]string{"istio": "ingressgateway"}},
	}
	var want []map[string]map[string][]byte
	for _, x := range all {
		want = append(want, held(p.Connect(t, x)))
	}
	archive := filepath.Join(t.TempDir(), "report.tar.gz")
	if out := pilotctl(t, p, "bug-report", "-f", archive); !strings.HasPrefix(out, archive) {
		t.Fatal(out)
	}
	if out := pilotctl(t, p, "bug-report", "-f", archive); !strings.Contains(out, "file exists") {
		t.Errorf("a second report is written over the first: %s", out)
	}
	files := unpack(t, archive)
	for name, content := range files {
		for _, hidden := range [][]byte{key, chain} {
			inner := strings.Split(string(hidden), "\n")[1]
			if strings.Contains(content, inner) || strings.Contains(content, base64.StdEncoding.EncodeToString(hidden)[:60]) {
				t.Errorf("%s has a part of the Secret", name)
			}
		}
	}
	for _, name := range []string{
		"log.txt", "metrics.txt", "syncz.json", "problems.json", "historyz.json", "goroutines.txt", "version.json",
	} {
		if !slices.ContainsFunc(keys(files), func(f string) bool { return filepath.Base(f) == name && len(files[f]) > 1 }) {
			t.Errorf("the archive has no %s; it has %q", name, keys(files))
		}
	}
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Open(archive, decoder)
	if err != nil {
		t.Fatal(err)
	}
	opts := plane.Options()
	replayed(&opts, s)
	again := plane.Start(t, opts)
	for i, x := range all {
		if diff := cmp.Diff(want[i], held(again.Connect(t, x))); diff != "" {
			t.Errorf("%s: -before +replayed:\n%s", x.Name, diff)
		}
	}
	if one, two := fmt.Sprint(p.Discovery.Problems()), fmt.Sprint(again.Discovery.Problems()); one != two {
		t.Errorf("the problems are\n%s\nand replayed\n%s", one, two)
	}
	if out := pilotctl(t, p, "plan", "-f", os.DevNull, "--on", archive); !strings.Contains(out, "no objects") {
		t.Errorf("plan on the archive: %s", out)
	}
}

// held are the resources of a client, but no Secrets.
func held(c *plane.Client) map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for typ, resources := range c.InUse() {
		if typ == ads.SecretType {
			continue
		}
		out[typ] = map[string][]byte{}
		for name, body := range resources {
			out[typ][name] = body
		}
	}
	return out
}

// pilotctl runs a command of pilotctl. Its output includes an error.
func pilotctl(t *testing.T, p *plane.Plane, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := ctl.Command("test")
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append(args, "--address", p.Discovery.HTTPAddr()))
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// unpack returns the files of an archive, those that are compressed unpacked.
func unpack(t *testing.T, archive string) map[string]string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(unpacked); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = files
		if strings.HasSuffix(h.Name, ".gz") {
			if r, err = gzip.NewReader(files); err != nil {
				t.Fatal(err)
			}
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(content)
	}
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// newCertificate makes a certificate and its key, in PEM.
func newCertificate(t *testing.T) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: []string{"shop.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}
