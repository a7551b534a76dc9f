package clusters_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/admin/page"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// shown is what /debug/clusterz says of a cluster.
func shown(p *plane.Plane, name string) (page.RemoteCluster, error) {
	response, err := http.Get(p.URL("/debug/clusterz"))
	if err != nil {
		return page.RemoteCluster{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var all []page.RemoteCluster
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, c := range all {
		if c.ID == name {
			return c, err
		}
	}
	return page.RemoteCluster{}, fmt.Errorf("no %s in %s", name, text)
}

// The last state of a cluster outlives a restart of the control plane while the cluster is away, but only for the configured time; a broken
// file is reported.
func TestKeptOnDisk(t *testing.T) {
	t.Parallel()
	east, west := cluster.Start(t), cluster.Start(t)
	east.Apply(t, shop("10.3.0.1"))
	west.Apply(t, shop("10.4.0.1"))
	gate := west.Gate(t)
	east.Apply(t, remote("west", read(t, west.Kubeconfig(t, gate, "reader", "system:masters"))))
	o := options(t, east)
	o.ClusterDir, o.ClusterWait = filepath.Join(t.TempDir(), "state"), 100*time.Millisecond
	file := filepath.Join(o.ClusterDir, "west.cluster.json")

	p := plane.Start(t, o)
	connect(t, p).reaches(t, "10.3.0.1", "10.4.0.1")
	stands(t, p, "east synced", "west synced istio-system/remote-west")
	stop := func() {
		t.Helper()
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	stop() // writes the known state to disk
	text := string(read(t, file))
	if !strings.Contains(text, "10.4.0.1") || strings.Contains(text, "certificate") || strings.Contains(text, "kubeconfig") {
		t.Errorf("kept is %s", text)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, o.ClusterDir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}

	gate.Close()
	p = plane.Start(t, o)
	connect(t, p).reaches(t, "10.3.0.1", "10.4.0.1")
	stands(t, p, "east synced", "west late istio-system/remote-west")
	if c, err := shown(p, "west"); err != nil || c.AsOf == nil || !strings.HasPrefix(c.Kept, "on disk, as of ") {
		t.Errorf("shown is %+v, %v", c, err)
	}
	west.Apply(t, strings.ReplaceAll(shop("10.4.0.2"), "web-1", "web-2"))
	west.Delete(t, "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop}}")
	gate.Open(t)
	connect(t, p).reaches(t, "10.3.0.1", "10.4.0.2") // the cluster is read, and the kept state counts no more
	stands(t, p, "east synced", "west synced istio-system/remote-west")
	stop()

	gate.Close()
	o.ClusterTTL = 2 * time.Second
	p = plane.Start(t, o)
	s := connect(t, p)
	s.reaches(t, "10.3.0.1")
	rig.Eventually(t, func() error {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			return fmt.Errorf("the file is still there: %w", err)
		}
		return nil
	})
	gate.Open(t)
	s.reaches(t, "10.3.0.1", "10.4.0.2") // it starts over
	stop()

	gate.Close()
	o.ClusterTTL = time.Hour
	if err := os.WriteFile(file, []byte("what is this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = plane.Start(t, o)
	connect(t, p).reaches(t, "10.3.0.1")
	if c, err := shown(p, "west"); err != nil || !strings.HasPrefix(c.Kept, "not read: ") {
		t.Errorf("shown is %+v, %v", c, err)
	}
	east.Delete(t, "{apiVersion: v1, kind: Secret, metadata: {name: remote-west, namespace: istio-system}}")
	stands(t, p, "east synced")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("of a cluster that no Secret names a file is kept: %v", err)
	}
}
