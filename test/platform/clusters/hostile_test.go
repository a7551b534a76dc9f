package clusters_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/mesh/code"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// stranger is an API server that does what answer does, and the kubeconfig that leads there.
func stranger(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewTLSServer(answer)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {token: t}}],
 clusters: [{name: x, cluster: {server: "%s", certificate-authority-data: %s}}], contexts: [{name: x, context: {cluster: x, user: x}}]}`,
		s.URL, base64.StdEncoding.EncodeToString(roots))
}

// Secrets and API servers that mean harm: those that can be refused are refused, the others cost bounded memory and time, and no other
// source is affected. It runs beside no other test, because it measures the memory of the process.
func TestHostileClusters(t *testing.T) {
	east, west := cluster.Start(t), cluster.Start(t)
	east.Apply(t, shop("10.3.0.1"))
	west.Apply(t, shop("10.4.0.1"))
	good := read(t, west.Kubeconfig(t, nil, "reader", "system:masters"))
	east.Apply(t, remote("a-west", good))

	var sent atomic.Int64
	junk := []byte(strings.Repeat(" ", 1<<20))
	over := make(chan struct{})
	endless := stranger(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			n, err := w.Write(junk)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	hanging := stranger(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	leading := stranger(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/internal", http.StatusTemporaryRedirect)
	})
	for name, text := range map[string]string{"endless": endless, "hanging": hanging, "leading": leading} {
		east.Apply(t, remote("b-"+name, []byte(text)))
	}
	for i := range 150 {
		east.Apply(t, remote(fmt.Sprintf("c-%03d", i), []byte(hanging)))
	}
	east.Apply(t, remote("d-huge", []byte(strings.Repeat("#", 700<<10)+"\n"+string(good))))
	for name, bad := range map[string]string{
		"exec":  "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}",
		"file":  "tokenFile: /etc/passwd",
		"other": "auth-provider: {name: gcp}",
	} {
		east.Apply(t, remote("d-"+name, []byte(strings.Replace(string(good), "user: {", "user: {"+bad+", ", 1))))
	}

	o := options(t, east)
	o.ClusterWait, o.ClusterDir = 2*time.Second, t.TempDir()
	started := time.Now()
	p := plane.Start(t, o)
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("the start took %v", took)
	}
	s := connect(t, p)
	s.reaches(t, "10.3.0.1", "10.4.0.1")
	rig.Eventually(t, func() error {
		refused := 0
		for _, x := range p.Discovery.Problems() {
			if x.Code == code.BadKubeconfig {
				refused++
			}
		}
		if all, err := standings(p); err != nil || len(all) != 101 || refused < 54 {
			return fmt.Errorf("%d clusters are read, want 101 with the own one; %d keys of Secrets are refused; %w", len(all), refused, err)
		}
		if sent.Load() < 128<<20 {
			return fmt.Errorf("the endless answer has %d bytes so far", sent.Load())
		}
		return nil
	})
	var m runtime.MemStats
	runtime.GC()
	if runtime.ReadMemStats(&m); m.HeapAlloc > 600<<20 {
		t.Errorf("%d MB are in use", m.HeapAlloc>>20)
	}
	t.Logf("%d MB are in use", m.HeapAlloc>>20)
	if followed.Load() > 0 {
		t.Errorf("%d requests were led elsewhere", followed.Load())
	}
	west.Apply(t, strings.ReplaceAll(shop("10.4.0.2"), "web-1", "web-2"))
	s.reaches(t, "10.3.0.1", "10.4.0.1", "10.4.0.2")
}
