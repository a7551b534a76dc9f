package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestModules: an agent fetches the modules of WasmPlugins, from a server and from a registry. While a module is missing, requests are
// refused, or with FAIL_OPEN go on without it, and the object says why. A module that replaces another is in force without a new Envoy. A
// Secret's password for a registry is sent to that registry alone, and is in no file of the agent's.
func TestModules(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = documents(w.services(1), w.vouched("web"))
	w.start()
	var up atomic.Bool
	images := map[string][]byte{"some": live.WasmModule("x-wasm", "image"), "private": live.WasmModule("x-wasm", "private")}
	const password = "known-to-nobody-else"
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			rw.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/v2/private/") && !asks(r, "me", password):
			rw.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			rw.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			image := images[strings.Split(r.URL.Path, "/")[2]]
			if strings.Contains(r.URL.Path, "/blobs/") {
				_, _ = rw.Write(image)
				return
			}
			rw.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = fmt.Fprintf(rw, `{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": `+
				`[{"mediaType": "application/vnd.module.wasm.content.layer.v1+wasm", "digest": "sha256:%x", "size": %d}]}`,
				sha256.Sum256(image), len(image))
		default:
			_, _ = rw.Write(live.WasmModule("x-wasm", "server"))
		}
	}))
	defer server.Close()
	more := ""
	plugin := func(url, fail string) {
		t.Helper()
		w.plane.Apply(t, "plugin", rig.Text(t, "plugin.yaml", rig.Pairs("name", "first", "url", url, "fail", fail, "more", more)))
	}
	plugin(server.URL+"/a.wasm", "FAIL_CLOSE")
	w.introduce()
	w.launch(w.options.SecureAddr)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) })
	w.answers(http.StatusServiceUnavailable, "")
	w.told("has not got the module, and tries again: the server answers 503")
	plugin(server.URL+"/a.wasm", "FAIL_OPEN")
	w.answers(http.StatusOK, "")

	up.Store(true)
	w.answers(http.StatusOK, "server")
	w.told("")
	plugin("oci://"+server.Listener.Addr().String()+"/some/image:v1", "FAIL_CLOSE")
	w.answers(http.StatusOK, "image")

	// Another registry accepts only the password from a Secret. Until then the old module stays in use.
	more = "imagePullSecret: pull"
	plugin("oci://"+server.Listener.Addr().String()+"/private/image:v1", "FAIL_CLOSE")
	w.told("there is no Secret default/pull")
	secret := func(password string) {
		t.Helper()
		w.plane.Apply(t, "pull", rig.Text(t, "pull.yaml", rig.Pairs("host", server.Listener.Addr().String(), "password", password)))
	}
	secret("wrong")
	w.told("has not got the module, and tries again")
	w.answers(http.StatusOK, "image")
	secret(password)
	w.answers(http.StatusOK, "private")
	w.told("")
	w.nowhere(password)
	if f := w.await("ready", func(f facts) bool { return f.Ready }); f.Envoys.Starts != 1 || f.Envoys.Handovers != 0 {
		t.Errorf("Envoy was replaced: %+v", f.Envoys)
	}
}

// asks reports whether a request has these credentials.
func asks(r *http.Request, user, password string) bool {
	u, p, _ := r.BasicAuth()
	return u == user && p == password
}

// nowhere says that no file of the agent's holds a text.
func (w *world) nowhere(text string) {
	w.t.Helper()
	files := 0
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if files++; bytes.Contains(content, []byte(text)) {
			w.t.Errorf("%s holds %q", path, text)
		}
		return err
	})
	if err != nil || files == 0 {
		w.t.Errorf("%d files of the agent were read: %v", files, err)
	}
}

// answers waits until a request of the workload is answered so, and has the header that a module adds.
func (w *world) answers(status int, header string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		r, err := live.Try(live.Request{To: w.Addr("web", 8000), Host: "s0.test"})
		if err == nil && (r.Status != status || r.Echo.Header.Get("x-wasm") != header) {
			err = fmt.Errorf("%d with x-wasm %q, want %d with %q", r.Status, r.Echo.Header.Get("x-wasm"), status, header)
		}
		return err
	})
}

// told waits until the WasmPlugin's problems have a text, or, if it is empty, until there are none.
func (w *world) told(text string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		var all []string
		for _, p := range w.plane.Discovery.Problems() {
			if p.Object.Kind == "WasmPlugin" {
				all = append(all, p.Message)
			}
		}
		if said := strings.Join(all, "\n"); text == "" && said != "" || !strings.Contains(said, text) {
			return errors.New("problems are " + said + ", want " + text)
		}
		return nil
	})
}
