package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

func decoder(t testing.TB) *config.Decoder {
	t.Helper()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const rules = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec: {hosts: [a.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.example], tls: {mode: SIMPLE, credentialName: front}}]
`

// world is a snapshot of two sources: one with rules and a Secret in the words of their authors, one as an API server has them.
func world(t testing.TB, d *config.Decoder) (s *snapshot.Snapshot, hidden []string) {
	t.Helper()
	one := source.Rows{}
	for _, doc := range config.Split("rules.yaml", []byte(rules)) {
		o, problems := d.Decode(doc)
		if o == nil {
			t.Fatal(problems)
		}
		one.Objects = append(one.Objects, o)
	}
	settings, problems := d.DecodeMeshConfig(config.Document{File: "mesh", Line: 1, Text: []byte(
		"defaultConfig: {proxyMetadata: {" + config.LabelAccountsKey + ": shop/edge}}",
	)})
	if settings == nil {
		t.Fatal(problems)
	}
	one.Objects = append(one.Objects, settings)
	chain, key := snapshot.NewPair(t)
	hidden = []string{"TOKEN-OF-A-REGISTRY"}
	for _, text := range [][]byte{chain, key} {
		hidden = append(hidden, strings.Split(string(text), "\n")[1], base64.StdEncoding.EncodeToString(text)[:60])
	}
	tree := func(kind, name, typ string, data map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": kind, "type": typ, "data": data,
			"metadata": map[string]any{
				"name": name, "namespace": "shop", "uid": "u-" + name, "resourceVersion": "7",
				"annotations": map[string]any{"fairway/service-accounts": "edge", "note": "TOKEN-OF-A-REGISTRY"},
			},
		}
	}
	encoded := func(text []byte) string { return base64.StdEncoding.EncodeToString(text) }
	two := source.Rows{
		Services: []*mesh.Service{{
			Key:   mesh.ServiceKey{Host: "web.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/k", Object: "web"},
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, Addresses: []string{"10.96.0.1"},
		}},
		Namespaces: []mesh.Namespace{{Key: mesh.NamespaceKey{Registry: "Kubernetes/k", Name: "shop"}}},
	}
	ingress := map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": map[string]any{
			"name": "i", "namespace": "shop", "uid": "u-i", "generation": int64(3), "creationTimestamp": "2020-01-02T00:00:00Z",
			"annotations": map[string]any{"kubernetes.io/ingress.class": "istio"},
		},
		"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{
			"name": "web", "port": map[string]any{"number": int64(80)},
		}}},
	}
	for _, object := range []map[string]any{
		ingress,
		tree("Secret", "front", "kubernetes.io/tls", map[string]any{"tls.crt": encoded(chain), "tls.key": encoded(key)}),
		tree("Secret", "pull", "kubernetes.io/dockerconfigjson", map[string]any{
			".dockerconfigjson": encoded([]byte(`{"auths":{"r.example":{"auth":"VE9LRU4tT0YtQS1SRUdJU1RSWTp4"}}}`)),
		}),
	} {
		o, problems := d.DecodeTree("k", object)
		if o == nil {
			t.Fatal(problems)
		}
		two.Objects = append(two.Objects, o)
	}
	at := func(kind string) source.ShardKey { return source.ShardKey{Cluster: "k", Kind: kind} }
	proxy := mesh.Proxy{
		ID: "shop/edge|router~10.0.0.9~edge-1.shop~shop.svc.cluster.local", Type: mesh.Router, IP: "10.0.0.9", IPs: "10.0.0.9",
		Name: "edge-1", Namespace: "shop", Labels: "istio=ingressgateway", ServiceAccount: "edge", Standing: mesh.Proven, Mutual: true,
		HTTP: mesh.HTTPSettings{TrustedHops: 2, Own: mesh.OwnSettings{KeepCase: true}}, Since: 4, Idle: time.Minute,
	}
	service := two
	service.Objects = nil
	return &snapshot.Snapshot{
		Head: snapshot.Head{Format: 1, Program: "1", Turn: 9, Taken: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Options: snapshot.Options{
			RootNamespace: "istio-system", Cluster: "k",
		}},
		Sources: []shards.Said{
			{Name: "rules", Shards: []source.Shard{{Key: source.ShardKey{Kind: "file", Part: "rules.yaml"}, Whole: true, Rows: one}},
				Problems: map[string][]mesh.Problem{"rules.yaml": {{Code: "Syntax", Severity: mesh.Error, Message: "no"}}}},
			{Name: "Kubernetes k", Last: true, Shards: []source.Shard{
				{Key: at("Ingress"), Whole: true, Rows: source.Rows{Objects: two.Objects}},
				{Key: at("Service"), Whole: true, Rows: service},
			}},
		},
		Outside: snapshot.Outside{
			Proxies: []snapshot.Row[mesh.ProxyID, mesh.Proxy]{{Key: proxy.ID, Value: proxy}},
			Health: []snapshot.Row[mesh.ProxyID, mesh.HealthReport]{{
				Key: proxy.ID, Value: mesh.HealthReport{Proxy: proxy, From: netip.MustParseAddr("10.0.0.9"), Detail: "503"},
			}},
			HealthReady: true,
			HealthStored: []snapshot.Row[config.Key, bool]{{
				Key: config.Key{Kind: config.WorkloadEntry, Namespace: "shop", Name: "w"}, Value: true,
			}},
			Members: []snapshot.Row[mesh.ProxyID, input.Member]{{
				Key: proxy.ID, Value: input.Member{Member: config.Member{Namespace: "shop", Group: "g"}, Standing: mesh.Here},
			}},
			Roots: []snapshot.Row[mesh.ResourceKey, []byte]{{Key: mesh.ResourceKey{Name: "roots"}, Value: []byte{1, 2, 3}}},
			KeySets: []snapshot.Row[jwks.Source, jwks.Answer]{{
				Key: jwks.Source{URI: "https://i.example", Timeout: time.Second}, Value: jwks.Answer{Keys: `{"keys":[]}`, Failing: "no"},
			}},
			Resolved: []snapshot.Row[mesh.Host, input.Resolved]{{Key: "gw.example", Value: input.Resolved{Addresses: "1.2.3.4"}}},
			Rejections: []snapshot.Row[input.Rejected, input.Refusal]{{
				Key: input.Rejected{Proxy: proxy.ID, Type: xdstype.Clusters, Key: mesh.ResourceKey{
					Shelf: mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: "shop"}, Part: "p"}, Name: "c",
				}},
				Value: input.Refusal{Detail: "no", Version: 1 << 63},
			}},
			Unreadable: []snapshot.Row[input.File, string]{{Key: input.File{Proxy: proxy.ID, Path: "/a"}, Value: "no such file"}},
			OnDemand:   true, SecretsRead: []secret.Key{{Namespace: "shop", Name: "front"}},
		},
	}, hidden
}

func encode(t testing.TB, s *snapshot.Snapshot) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := snapshot.Encode(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func lines(t testing.TB, file []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestThereAndBack: everything comes back as it was, except the content of Secrets, which is not even written.
func TestThereAndBack(t *testing.T) {
	d := decoder(t)
	s, hidden := world(t, d)
	file := encode(t, s)
	text := lines(t, file)
	for _, h := range hidden {
		if strings.Contains(text, h) {
			t.Errorf("the file contains %q, a part of a Secret", h)
		}
	}
	got, err := snapshot.Decode(bytes.NewReader(file), d)
	if err != nil {
		t.Fatal(err)
	}
	opts := []cmp.Option{
		cmpopts.EquateComparable(mesh.MachineRef{}, netip.Addr{}), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b *config.Object) bool {
			if a.Credential != nil && b.Credential != nil {
				return a.Key == b.Key && a.Ref == b.Ref && a.Stored.UID == b.Stored.UID && a.Credential.Holders == b.Credential.Holders &&
					(len(a.Credential.Chain) > 0) == (len(b.Credential.Chain) > 0)
			}
			return config.Same(a, b) && a.Written().Equal(b.Written()) && a.Created == b.Created
		}),
	}
	if diff := cmp.Diff(s, got, opts...); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}

// TestLoad: a gateway with a Secret is served as if the Secret were known, and a second load gives the same bytes.
func TestLoad(t *testing.T) {
	d := decoder(t)
	s, _ := world(t, d)
	s.Outside.Rejections = nil
	got, err := snapshot.Decode(bytes.NewReader(encode(t, s)), d)
	if err != nil {
		t.Fatal(err)
	}
	w, err := snapshot.Load(got)
	if err != nil {
		t.Fatal(err)
	}
	listeners, secrets := 0, 0
	w.Graph.Store.Read(func(tx *table.Tx) {
		for _, of := range w.Graph.Out.Resources[xdstype.Listeners] {
			for _, e := range table.Each(tx, of) {
				if e.Err == nil && bytes.Contains(e.Body, []byte("kubernetes://front")) {
					listeners++
				}
			}
		}
		for _, of := range w.Graph.Out.Resources[xdstype.Secrets] {
			secrets += table.Len(tx, of)
		}
	})
	if listeners == 0 || secrets == 0 {
		t.Log(w.Graph.Problems())
		t.Errorf("%d listeners name the Secret, and %d resources hold one", listeners, secrets)
	}
	again := snapshot.Take(got.Head, w.Shards, w.Graph)
	if w, err = snapshot.Load(again); err != nil {
		t.Fatal(err)
	}
	third := snapshot.Take(got.Head, w.Shards, w.Graph)
	if one, two := lines(t, encode(t, again)), lines(t, encode(t, third)); one != two {
		t.Errorf("a snapshot of what was loaded is another:\n%s", cmp.Diff(one, two))
	}
}

// TestBroken: a file that Encode did not write is an error that says why.
func TestBroken(t *testing.T) {
	d := decoder(t)
	s, _ := world(t, d)
	good := encode(t, s)
	text := lines(t, good)
	first, rest, _ := strings.Cut(text, "\n")
	after := func(lines ...string) string { // the head and a source
		return string(packed(t, strings.Join(append([]string{first, `{"Source":{"Name":"a"}}`}, lines...), "\n")))
	}
	for name, c := range map[string]struct{ file, want string }{
		"empty":           {"", "not a snapshot"},
		"text":            {"{}", "not a snapshot"},
		"half":            {string(good[:len(good)/2]), "damaged"},
		"no head":         {string(packed(t, rest)), "does not begin with a head"},
		"another format":  {string(packed(t, strings.Replace(text, `"Format":1`, `"Format":2`, 1))), "format 1"},
		"no end":          {string(packed(t, strings.Replace(text, `{"End":true}`, "", 1))), "damaged"},
		"after the end":   {string(packed(t, text+text)), "goes on after its end"},
		"an empty line":   {string(packed(t, first+"\n{}\n")), "it is empty"},
		"unknown":         {string(packed(t, first+"\n{\"Other\":1}\n")), "damaged"},
		"rows first":      {string(packed(t, first+"\n{\"Part\":{\"Services\":[{}]}}\n")), "before their source"},
		"a source twice":  {after(`{"Source":{"Name":"a"}}`), "twice"},
		"a null":          {after(`{"Part":{"Services":[null]}}`), "service"},
		"a Secret's rule": {after(`{"Part":{"Objects":[{"Key":{"Kind":"Secret"}}]}}`), "not stored"},
		"a severity":      {after(`{"Source":{"Name":"b","Problems":{"f":[{"Severity":"bad"}]}}}`), "not a severity"},
	} {
		if _, err := snapshot.Decode(strings.NewReader(c.file), d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestMerge: what only the second control plane knows of its proxies is added.
func TestMerge(t *testing.T) {
	d := decoder(t)
	a, _ := world(t, d)
	b, _ := world(t, d)
	other := b.Outside.Proxies[0]
	other.Key = "other"
	b.Outside.Proxies = append(b.Outside.Proxies, other)
	if got := snapshot.Merge(a, b); len(got.Outside.Proxies) != 2 || len(got.Outside.Health) != 1 || len(a.Outside.Proxies) != 1 {
		t.Errorf("%d proxies and %d reports; the first has %d proxies",
			len(got.Outside.Proxies), len(got.Outside.Health), len(a.Outside.Proxies))
	}
}

// FuzzDecode: no lines end the program, and a snapshot that is read can be written and read again.
func FuzzDecode(f *testing.F) {
	d := decoder(f)
	s, _ := world(f, d)
	f.Add(lines(f, encode(f, s)))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := snapshot.Decode(bytes.NewReader(packed(t, text)), d)
		if err != nil {
			return
		}
		if _, err := snapshot.Decode(bytes.NewReader(encode(t, got)), d); err != nil {
			t.Fatalf("it cannot be read again: %v", err)
		}
	})
}
