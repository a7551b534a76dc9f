package relay

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// credential is a certificate with its key, as the Secret that the gateway names.
type credential struct {
	live.Pair
	secret string
	key    []byte // PEM
}

// issue makes a credential. Files of another one of the same name are overwritten, so it is read at once.
func issue(t *testing.T, ca *live.Authority) credential {
	t.Helper()
	pair := ca.Issue(t, "shop.example")
	key, err := os.ReadFile(pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return credential{pair, live.Secret(t, "shop", pair), key}
}

// forms returns the forms that the key could have on disk.
func (c credential) forms() [][]byte {
	block, _ := pem.Decode(c.key)
	return [][]byte{
		bytes.Split(c.key, []byte("\n"))[1], block.Bytes,
		[]byte(base64.StdEncoding.EncodeToString(block.Bytes)), []byte(base64.StdEncoding.EncodeToString(c.key)),
	}
}

// TestCredentialsOfGateways: a gateway that gets its configuration through its agent's relay serves a certificate from
// a Secret, replaced under load, and serves the mesh with its own identity. The key is on no disk of the gateway: if it
// starts while the control plane is away, it first serves the listeners that need no key, and the others when the
// control plane is back.
func TestCredentialsOfGateways(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	gw := w.another("gw", "router")
	ca := live.NewAuthority(t, "gateway")
	first, second := issue(t, ca), issue(t, ca)
	w.rules = documents(w.services(1), w.Rules(t, "gateway.yaml"), w.vouched("gw"))
	w.start()
	w.plane.Apply(t, "secret", first.secret)
	gw.plane = w.plane
	for _, one := range []*world{w, gw} {
		one.introduce()
		one.launch(w.options.SecureAddr)
	}
	for _, one := range []*world{w, gw} {
		one.await("ready", func(f facts) bool { return f.Ready && connected(f) && f.Relay.Cache != nil })
	}
	ask := live.Request{To: w.Addr("gw", 8443), Host: "shop.example", TLS: &tls.Config{ServerName: "shop.example", RootCAs: ca.Pool}}
	inside := live.Request{To: w.Addr("web", 8000), Host: "inner.test"}
	rig.Eventually(t, func() error { return shows(ask, first) })
	w.serves("inner.test")
	if got := strings.Join(live.Send(t, inside).Echo.Header["X-Forwarded-Client-Cert"], ","); !strings.Contains(got,
		"URI=spiffe://cluster.local/ns/default/sa/web") {
		t.Errorf("the service behind the gateway is told of the caller %q", got)
	}

	load := live.StartLoad(t, live.HTTPClients("HTTPS", 2, ask), live.HTTPClients("inside", 2, inside))
	load.Await(t, 20)
	before := w.sent()
	w.plane.Apply(t, "secret", second.secret)
	rig.Eventually(t, func() error { return shows(ask, second) })
	load.Await(t, 20)
	load.Stop(t)
	if n := w.sent() - before; n != 1 {
		t.Errorf("for a replaced Secret %v resources were sent", n)
	}

	w.away()
	w.rules += second.secret // for when it comes back
	killed := gw.await("away", func(f facts) bool { return f.Ready && disconnected(f) })
	if err := syscall.Kill(killed.Envoys.Serving.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gw.await("started again", func(f facts) bool { return f.Envoys.Starts == killed.Envoys.Starts+1 })
	w.serves("inner.test")
	if err := shows(ask, second); err == nil {
		t.Error("a gateway that never met its control plane has the Secret's certificate")
	}
	gw.keepsNone(first, second)
	w.start()
	rig.Eventually(t, func() error { return shows(ask, second) })
	w.serves("inner.test")
	gw.keepsNone(first, second)
}

// shows tells whether a new connection is shown a certificate, and a request on it answered.
func shows(r live.Request, want credential) error {
	if err := live.Shows(r, want.Pair); err != nil {
		return err
	}
	reply, err := live.Try(r)
	if err == nil && reply.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", reply.Status, reply.Body)
	}
	return err
}

// keepsNone checks that no file of the workload's agent and its Envoy has one of the keys, as it is or as base64. The
// agent's cache has to hold the listener that names the Secret.
func (w *world) keepsNone(all ...credential) {
	w.t.Helper()
	named := false
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		named = named || strings.Contains(path, "xds-cache") && bytes.Contains(content, []byte("kubernetes://shop"))
		for _, c := range all {
			for _, form := range c.forms() {
				if bytes.Contains(content, form) {
					w.t.Errorf("%s holds a key of the Secret", path)
				}
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if !named {
		w.t.Error("the cache does not hold the listener that names the Secret: nothing was looked at")
	}
}
