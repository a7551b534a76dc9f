package extensions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extensionv3 "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	extensionsapi "istio.io/api/extensions/v1alpha1"

	"fairway/internal/agent/relay"
	"fairway/internal/envoy/extension"
	"fairway/test/rig"
)

// module is bytes that begin as a module does.
func module(text string) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), text...) }

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func newSet(t *testing.T, o Options) *Set {
	t.Helper()
	o.Dir, o.Socket, o.Log = filepath.Join(t.TempDir(), "wasm"), filepath.Join(t.TempDir(), "s"), slog.New(slog.DiscardHandler)
	o.Retry = time.Millisecond
	return New(o)
}

func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func asked(url, sum string) order {
	return order{extension.Order{Module: extension.Module{URL: url, SHA256: sum}}, url + "\n" + sum + "\n"}
}

// TestDownload: what a server may and may not send.
func TestDownload(t *testing.T) {
	good := module("good")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	_, _ = z.Write(module(""))
	for range mostUnpacked>>20 + 1 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	mux := http.NewServeMux()
	serve := func(path string, body []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	}
	serve("/good", good)
	serve("/archive", archive(t, map[string][]byte{"../../etc/plugin.wasm": good}))
	serve("/empty-archive", archive(t, map[string][]byte{"readme": good}))
	serve("/bomb", bomb.Bytes())
	serve("/page", []byte("<html>"))
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(good)
		for {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "999999999999") })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/cloud", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	secured := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL+"/good", http.StatusFound)
	}))
	defer secured.Close()
	s := newSet(t, Options{})
	s.client.Transport.(*http.Transport).TLSClientConfig = secured.Client().Transport.(*http.Transport).TLSClientConfig
	for _, c := range []struct{ url, sum, wrong string }{
		{url: server.URL + "/good"},
		{url: server.URL + "/good", sum: sum(good)},
		{url: server.URL + "/good", sum: strings.Repeat("0", 64), wrong: "not the one in sha256"},
		{url: server.URL + "/archive", sum: sum(good)},
		{url: server.URL + "/moved"},
		{url: server.URL + "/empty-archive", wrong: "no .wasm file"},
		{url: server.URL + "/bomb", wrong: "more than"},
		{url: server.URL + "/endless", wrong: "more than"},
		{url: server.URL + "/long", wrong: "more than"},
		{url: server.URL + "/page", wrong: "not a WebAssembly"},
		{url: server.URL + "/none", wrong: "answers 404"},
		{url: server.URL + "/loop", wrong: "again and again"},
		{url: server.URL + "/cloud", wrong: "barred"},
		{url: server.URL + "/local", wrong: "from http to file"},
		{url: secured.URL, wrong: "from https to http"},
		{url: "gopher://x", wrong: "not a way"},
		{url: "file:///no/such/file", wrong: "no such file"},
	} {
		got, err := s.fetch(t.Context(), asked(c.url, c.sum))
		switch {
		case c.wrong == "" && (err != nil || !bytes.Equal(got, good)):
			t.Errorf("%s %s: %q, %v", c.url, c.sum, got, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s %s: %v, want %q", c.url, c.sum, err, c.wrong)
		}
	}
}

// TestAuthorsLearnNothingOfTheMachine: the author of an extension hears the same words of every file that holds no such module, whether it
// exists, and of every server that cannot be reached. The log has the cause.
func TestAuthorsLearnNothingOfTheMachine(t *testing.T) {
	good, dir := module("good"), t.TempDir()
	for name, text := range map[string][]byte{"page": []byte("secret"), "module": good} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	s := newSet(t, Options{})
	for words, orders := range map[string][]order{
		"the proxy's machine has no such module in this file; the agent's log says why": {
			asked("file:///no/such/file", ""), asked("file://"+dir, ""), asked("file://"+dir+"/page", ""), asked("file:///dev/null", ""),
			asked("file://"+dir+"/page", sum(good)), asked("file://"+dir+"/module", strings.Repeat("0", 64)),
			asked("file:///etc/shadow/x", ""),
		},
		"the server cannot be reached; the agent's log says why": {
			asked(closed.URL, ""), asked("http://none.invalid/x", ""), asked("oci://"+strings.TrimPrefix(closed.URL, "http://")+"/a:b", ""),
		},
	} {
		for _, o := range orders {
			_, err := s.fetch(t.Context(), o)
			if err == nil || reasonFor(err) != words {
				t.Errorf("%s: %v, want %q", o.URL, err, words)
			} else if err.Error() == words {
				t.Errorf("%s: the log does not say why: %v", o.URL, err)
			}
		}
	}
	if got, err := s.fetch(t.Context(), asked("file://"+dir+"/module", sum(good))); err != nil || !bytes.Equal(got, good) {
		t.Errorf("a good module: %v", err)
	}
	h := newHub(t)
	digest := h.image(t, "raw", "application/vnd.module.wasm.content.layer.v1+wasm", good)
	_, err := s.fetch(t.Context(), asked("oci://"+h.host()+"/a/b:raw", sum(good)))
	if err == nil || strings.Contains(reasonFor(err), digest) || !strings.Contains(err.Error(), digest) {
		t.Errorf("the error contains the image's own digest: %v", err)
	}
}

// TestModulesStandInAllowedFolders: if the operator names folders, a module by file:// is accepted if its real path is below one of
// them, through any links. Otherwise its author gets the same error as for a file that is missing.
func TestModulesStandInAllowedFolders(t *testing.T) {
	dir := t.TempDir()
	good := module("good")
	for _, name := range []string{"wasm/a/module", "wasm-other/module", "elsewhere/module"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"wasm/in": "a/module", "wasm/out": "../elsewhere/module", "linked": "wasm"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := newSet(t, Options{Folders: []string{dir + "/none", dir + "/linked"}})
	for path, allowed := range map[string]bool{
		"wasm/a/module": true, "wasm/in": true, "linked/a/module": true, "elsewhere/../wasm/in": true,
		"wasm/out": false, "wasm-other/module": false, "elsewhere/module": false, "wasm/../elsewhere/module": false,
	} {
		got, err := s.fetch(t.Context(), asked("file://"+dir+"/"+path, ""))
		if allowed != (err == nil && bytes.Equal(got, good)) {
			t.Errorf("%s: allowed is %t, want %t: %v", path, !allowed, allowed, err)
		}
		if err != nil && (strings.Contains(reasonFor(err), dir) || !strings.Contains(err.Error(), "--wasmFolders")) {
			t.Errorf("%s: the author hears %q; the log has %v", path, reasonFor(err), err)
		}
	}
}

// hub is a registry on loopback. It answers that a blob or manifest is missing unless it has its name.
type hub struct {
	*httptest.Server
	blobs     map[string][]byte // by digest
	manifests map[string][]byte // by tag or digest
	user      string            // "user:password" that it asks for; empty: it asks for none
	realm     string            // where it sends for tokens; empty: it asks for a password itself
	shown     []string          // what it was shown
}

func newHub(t *testing.T) *hub {
	h := &hub{blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth := r.Header.Get("Authorization"); auth != "" {
			h.shown = append(h.shown, auth)
		}
		if h.user != "" && r.Header.Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(h.user)) {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			if h.realm != "" {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+h.realm+`",service="hub"`)
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		of := h.manifests
		if strings.Contains(r.URL.Path, "/blobs/") {
			of = h.blobs
		}
		body, ok := of[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		}
		w.Header().Set("Docker-Content-Digest", "sha256:"+sum(body))
		_, _ = w.Write(body)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) host() string { return h.Listener.Addr().String() }

// image has an image of one layer, and gives the digest of its manifest.
func (h *hub) image(t *testing.T, tag, kind string, layer []byte) string {
	t.Helper()
	h.blobs["sha256:"+sum(layer)] = layer
	return h.manifest(t, tag, map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"layers": []any{map[string]any{"mediaType": kind, "digest": "sha256:" + sum(layer), "size": len(layer)}},
	})
}

func (h *hub) manifest(t *testing.T, tag string, m any) string {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	h.manifests[tag], h.manifests["sha256:"+sum(raw)] = raw, raw
	return sum(raw)
}

// TestPull: images in all their forms are verified by the digest of the manifest; others are refused with a reason.
func TestPull(t *testing.T) {
	good := module("image")
	h := newHub(t)
	const tarred, raw = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.module.wasm.content.layer.v1+wasm"
	digest := h.image(t, "raw", raw, good)
	h.image(t, "latest", tarred, archive(t, map[string][]byte{"plugin.wasm": good}))
	h.image(t, "page", raw, []byte("<html>"))
	h.manifest(t, "index", map[string]any{"manifests": []any{
		map[string]any{"digest": "sha256:" + strings.Repeat("0", 64), "size": 1, "platform": map[string]any{"architecture": "amd64"}},
		map[string]any{"digest": "sha256:" + digest, "size": 1, "platform": map[string]any{"architecture": "wasm32"}},
	}})
	h.manifest(t, "bare", map[string]any{"schemaVersion": 2})
	h.manifest(t, "huge", map[string]any{"layers": []any{map[string]any{"mediaType": raw, "digest": "sha256:" + digest, "size": 1 << 40}}})
	h.manifest(t, "changed", map[string]any{"layers": []any{
		map[string]any{"mediaType": raw, "digest": "sha256:" + sum([]byte("x")), "size": 9},
	}})
	h.blobs["sha256:"+sum([]byte("x"))] = []byte("x and y !")
	s := newSet(t, Options{})
	for _, c := range []struct{ image, sum, wrong string }{
		{image: "/a/b:raw"},
		{image: "/a/b:raw", sum: digest},
		{image: "/a/b@sha256:" + digest, sum: digest},
		{image: "/a/b"},
		{image: "/a/b:index"},
		{image: "/a/b:raw", sum: sum(good), wrong: "the image's digest is not the one in sha256"},
		{image: "/a/b:page", wrong: "not a WebAssembly"},
		{image: "/a/b:bare", wrong: "no layers"},
		{image: "/a/b:huge", wrong: "more than"},
		{image: "/a/b:changed", wrong: "digest"},
		{image: "/a/b:none", wrong: "not found"},
		{image: "/../b c", wrong: "names no image"},
	} {
		got, err := s.fetch(t.Context(), asked("oci://"+h.host()+c.image, c.sum))
		switch {
		case c.wrong == "" && (err != nil || !bytes.Equal(got, good)):
			t.Errorf("%s %s: %q, %v", c.image, c.sum, got, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s %s: %v, want %q", c.image, c.sum, err, c.wrong)
		}
	}
}

// TestCredentials: a password goes only to the registry that it is for, not to another one, nor without TLS to a redirect's target.
func TestCredentials(t *testing.T) {
	good := module("image")
	const raw = "application/vnd.module.wasm.content.layer.v1+wasm"
	own, other, thief := newHub(t), newHub(t), newHub(t)
	own.image(t, "v1", raw, good)
	other.image(t, "v1", raw, good)
	own.user, other.user = "me:secret", "me:secret"
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		"http://" + own.host() + "/v1/": map[string]any{"auth": base64.StdEncoding.EncodeToString([]byte("me:secret"))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSet(t, Options{Credentials: func() ([]byte, error) { return config, nil }})
	if got, err := s.fetch(t.Context(), asked("oci://"+own.host()+"/a:v1", "")); err != nil || !bytes.Equal(got, good) {
		t.Errorf("its own registry: %q, %v", got, err)
	}
	if _, err := s.fetch(t.Context(), asked("oci://"+other.host()+"/a:v1", "")); err == nil || len(other.shown) > 0 {
		t.Errorf("another registry: %v, it was shown %q", err, other.shown)
	}
	ordered := asked("oci://"+other.host()+"/a:v1", "")
	ordered.Secret = extension.Shown(fmt.Appendf(nil, `{"auths": {"x.example": {"auth": "eDp5"}, %q: {"username": "me", "password": "secret"}}}`,
		other.host()), other.host())
	if strings.Contains(ordered.Secret, "x.example") {
		t.Errorf("the agent is sent what another registry is shown: %s", ordered.Secret)
	}
	if got, err := s.fetch(t.Context(), ordered); err != nil || !bytes.Equal(got, good) {
		t.Errorf("what came with the order: %q, %v", got, err)
	}
	ordered.Secret = extension.Shown(config, own.host())
	other.shown = nil
	if _, err := s.fetch(t.Context(), ordered); err == nil || len(other.shown) > 0 {
		t.Errorf("an order with what another registry is shown: %v, it was shown %q", err, other.shown)
	}
	own.realm = thief.URL + "/token"
	if _, err := s.fetch(t.Context(), asked("oci://"+own.host()+"/a:v1", "")); err == nil || len(thief.shown) > 0 {
		t.Errorf("a registry that sends elsewhere in the clear: %v, shown %q", err, thief.shown)
	}
}

// TestAnotherSecret: if the fetch of a module failed, and the order comes with another secret, it is fetched at once, however far
// the next try is away; a module that is already fetched is not fetched again.
func TestAnotherSecret(t *testing.T) {
	h := newHub(t)
	h.image(t, "v1", "application/vnd.module.wasm.content.layer.v1+wasm", module("image"))
	h.user = "me:secret"
	s := newSet(t, Options{})
	s.o.Retry, s.o.RetryMax = time.Hour, time.Hour
	reports := make(chan map[string]string, 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func() {}, func(why map[string]string) { reports <- why }) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	e, _, err := extension.OfPlugin("shop", "a", "1", plugin("oci://"+h.host()+"/a:v1", ""))
	if err != nil {
		t.Fatal(err)
	}
	order := func(secret string) {
		t.Helper()
		if err := s.take(relay.Update{Changed: []relay.Resource{{Name: e.Name, Body: e.Order(secret).Body}}}); err != nil {
			t.Fatal(err)
		}
	}
	order("")
	if why := <-reports; !strings.Contains(why[e.Name], "credential not found") {
		t.Fatalf("without a secret: %q", why)
	}
	s.mu.Lock()
	served := s.news
	s.mu.Unlock()
	order(fmt.Sprintf(`{"auths": {%q: {"username": "me", "password": "secret"}}}`, h.host()))
	<-served
	before := len(h.shown)
	order(`{"auths": {}}`)
	if why := s.Missing(); len(why) > 0 || len(h.shown) != before {
		t.Errorf("a module that is there was asked for again: %q, shown %d times more", why, len(h.shown)-before)
	}
}

// stream is Envoy's, of extension configs.
func stream(t *testing.T, path string) extensionv3.ExtensionConfigDiscoveryService_StreamExtensionConfigsClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	wire, err := extensionv3.NewExtensionConfigDiscoveryServiceClient(conn).StreamExtensionConfigs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func plugin(url, name string) *extensionsapi.WasmPlugin {
	return &extensionsapi.WasmPlugin{Url: url, PluginName: name}
}

func refusal(why string) *statuspb.Status { return &statuspb.Status{Message: why} }

// TestServe: Envoy gets the fetched module; a module that cannot be fetched is reported and tried again; until the replacement of a
// module is there, the old one is served; a changed configuration needs no fetch; a removed module is not served anew.
func TestServe(t *testing.T) {
	bodies := make(chan []byte, 8) // of answers; none: 503
	asks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asks++
		select {
		case b := <-bodies:
			_, _ = w.Write(b)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	s := newSet(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	up, over, reports := make(chan struct{}), make(chan error, 1), make(chan map[string]string, 64)
	go func() { over <- s.Run(ctx, func() { close(up) }, func(f map[string]string) { reports <- f }) }()
	defer func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	<-up
	wire := stream(t, s.o.Socket)
	order := func(path, config string) {
		t.Helper()
		e, _, err := extension.OfPlugin("shop", "p", "1", plugin(server.URL+path, config))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.take(relay.Update{Changed: []relay.Resource{{Name: e.Name, Body: e.Order("").Body}}}); err != nil {
			t.Fatal(err)
		}
	}
	const name = "extensions.istio.io/wasmplugin/shop.p"
	if err := wire.Send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{name}}); err != nil {
		t.Fatal(err)
	}
	order("/one", "first")
	if r := <-reports; !strings.Contains(r[name], "answers 503") {
		t.Errorf("reported %q", r)
	}
	bodies <- module("one")
	if r := <-reports; len(r) != 0 {
		t.Errorf("reported %q", r)
	}
	counts := rig.Metrics(t, s.Collectors()...)
	for series, want := range map[string]float64{
		`wasm_cache_lookup_count{hit="false"}`: 2, `wasm_cache_entries`: 1, `wasm_modules_missing`: 0,
		`wasm_remote_fetch_count{result="download_failure"}`: 1, `wasm_remote_fetch_count{result="success"}`: 1,
	} {
		if counts[series] != want {
			t.Errorf("%s is %v, want %v", series, counts[series], want)
		}
	}
	is := func(want []byte, config string) {
		t.Helper()
		r, err := wire.Recv()
		if err != nil || len(r.GetResources()) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		c, w := &corev3.TypedExtensionConfig{}, &wasmv3.Wasm{}
		if err := r.GetResources()[0].UnmarshalTo(c); err != nil {
			t.Fatal(err)
		}
		if err := c.GetTypedConfig().UnmarshalTo(w); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(w.GetConfig().GetVmConfig().GetCode().GetLocal().GetFilename())
		if err != nil || !bytes.Equal(got, want) || w.GetConfig().GetRootId() != config {
			t.Errorf("it runs %q as %q, %v, want %q as %q", got, w.GetConfig().GetRootId(), err, want, config)
		}
		if err := wire.Send(&discoveryv3.DiscoveryRequest{
			ResourceNames: []string{name}, ResponseNonce: r.GetNonce(), VersionInfo: r.GetVersionInfo(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	is(module("one"), "first")
	had := asks
	order("/one", "second")
	is(module("one"), "second")
	if asks != had {
		t.Errorf("another configuration of the same module took %d fetches", asks-had)
	}
	order("/two", "second")
	if r := <-reports; !strings.Contains(r[name], "answers 503") {
		t.Errorf("reported %q", r)
	}
	if _, versions, _ := s.served([]string{name}); len(versions) != 1 {
		t.Error("what is to be replaced is not served until what replaces it is there")
	}
	bodies <- module("two")
	<-reports
	is(module("two"), "second")
	if err := wire.Send(&discoveryv3.DiscoveryRequest{
		ResourceNames: []string{name}, ResponseNonce: "3", ErrorDetail: refusal("it traps"),
	}); err != nil {
		t.Fatal(err)
	}
	if r := <-reports; !strings.Contains(r[name], "it traps") {
		t.Errorf("reported %q", r)
	}
	if err := s.take(relay.Update{Removed: []string{name}}); err != nil {
		t.Fatal(err)
	}
	if r := <-reports; len(r) != 0 || len(s.Missing()) != 0 {
		t.Errorf("reported %q, missing %q", r, s.Missing())
	}
}

// TestKept: a fetched module is not fetched again, unless its file was changed; if there are too many, unused ones are removed.
func TestKept(t *testing.T) {
	asks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks++
		_, _ = w.Write(module(r.URL.Path))
	}))
	defer server.Close()
	s := newSet(t, Options{})
	file, err := s.get(t.Context(), asked(server.URL+"/a", ""))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.get(t.Context(), asked(server.URL+"/a", "")); err != nil || again != file || asks != 1 {
		t.Errorf("%s, %v after %d fetches", again, err, asks)
	}
	next := New(s.o) // of the same folder, that knows nothing but what a module has to be
	if again, err := next.get(t.Context(), asked(server.URL+"/a", sum(module("/a")))); err != nil || again != file || asks != 1 {
		t.Errorf("%s, %v after %d fetches", again, err, asks)
	}
	if err := os.WriteFile(file, module("not a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := s.get(t.Context(), asked(server.URL+"/a", "")); err != nil || again != file || asks != 2 {
		t.Errorf("%s, %v after %d fetches", again, err, asks)
	}
	s.states["x"] = &state{file: file}
	for i := range mostModules + 8 {
		if _, err := s.get(t.Context(), asked(fmt.Sprintf("%s/%d", server.URL, i), "")); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	s.tidy()
	s.mu.Unlock()
	all, err := os.ReadDir(s.o.Dir)
	if _, there := os.Stat(file); err != nil || len(all) > mostModules || there != nil {
		t.Errorf("%d files, %v; the one that runs: %v", len(all), err, there)
	}
}
