package agent

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/internal/agent/token"
	"fairway/test/envoy/live"
)

// TestMistakes: if something cannot work, the agent reports it with a remedy before it starts anything, and leaves nothing behind.
func TestMistakes(t *testing.T) {
	m := live.Start(t, live.Options{})
	taken, err := net.Listen("tcp", m.Addr("web", 15020))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name   string
		change func(*setup)
		want   []string
	}{
		{"no Envoy", func(s *setup) { s.envoy = "/no/such/envoy" }, []string{"no Envoy to run", "--envoy"}},
		{
			"no Envoy but a program",
			func(s *setup) { s.envoy = "/bin/false"; s.args = []string{"--statusPort", "0"} },
			[]string{"refuses its bootstrap"},
		},
		{"status port taken", func(*setup) {}, []string{"address already in use", "--statusPort"}},
		{
			"readiness port taken",
			func(s *setup) { s.args = []string{"--statusPort", "15030", "--readyPort", "15020"} },
			[]string{"address already in use", "--readyPort"},
		},
		{"the folder is a file", func(s *setup) {
			os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o600)
			s.args = []string{"--statusPort", "0", "--configPath", filepath.Join(s.dir, "file", "below")}
		}, []string{"not a directory", "--configPath"}},
		{
			"labels unreadable",
			func(s *setup) { os.MkdirAll(filepath.Join(s.dir, "etc/istio/pod/annotations"), 0o755) },
			[]string{"read the workload's labels and annotations", "not a regular file"},
		},
		{
			"labels half written",
			func(s *setup) { s.env = []string{"ISTIO_METAJSON_LABELS={\"app\":"} },
			[]string{"ISTIO_METAJSON_LABELS is not a JSON object"},
		},
		{"PROXY_CONFIG half written", func(s *setup) { s.env = []string{"PROXY_CONFIG={concurrency:"} }, []string{"PROXY_CONFIG: "}},
		{"probes half written", func(s *setup) { s.env = []string{"ISTIO_KUBE_APP_PROBERS={"} }, []string{"ISTIO_KUBE_APP_PROBERS: "}},
		{"base id taken", func(s *setup) {
			hold, err := os.Create("/dev/shm/fairway_base_id_77001") // another agent's
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { hold.Close(); os.Remove(hold.Name()) })
			if err := syscall.Flock(int(hold.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			s.args = []string{"--statusPort", "0", "--base-id", "77001"}
		}, []string{"base id 77001 is taken: /dev/shm/fairway_base_id_77001 is locked by process", "--base-id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := with(t, m, "web")
			s.dir = t.TempDir()
			c.change(&s)
			p := launch(t, s)
			if code := p.Exit(t); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			wantContains(t, "log", p.Log.String(), c.want...)
			if strings.Contains(p.Log.String(), "envoy started") {
				t.Errorf("Envoy was started:\n%s", p.Log)
			}
			files, _ := filepath.Glob(filepath.Join(s.dir, "etc/istio/proxy/*"))
			for _, f := range files {
				// the next agent takes the token over
				if filepath.Base(f) != token.File && !strings.Contains(p.Log.String(), filepath.Base(f)) {
					t.Errorf("left behind, and not named in the log: %s", f)
				}
			}
		})
	}
}

// TestDiskFull: a start without room says so; a restart without room leaves the Envoy that serves.
func TestDiskFull(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Set(t, inbound(t, m, "web", application{1, 2}))
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("no file system of a chosen size can be had here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	filler := filepath.Join(disk, "filler")
	fill := func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	fill()
	s := with(t, m, "web", "--configPath", filepath.Join(disk, "proxy"), "--drainDuration", "1s", "--parentShutdownDuration", "2s")
	p := launch(t, s)
	if code := p.Exit(t); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	wantContains(t, "log", p.Log.String(), "no space left on device", "--configPath")
	if left, _ := filepath.Glob(filepath.Join(disk, "proxy", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	os.Remove(filler)
	p = launch(t, s)
	p.ready(t)
	before := p.facts(t).Envoys.Serving
	fill()
	code, body, err := p.call(http.MethodPost, "/hot-restart")
	if err != nil || code != http.StatusInternalServerError {
		t.Errorf("%d %v", code, err)
	}
	wantContains(t, "the answer", body, "no space left on device", "make room")
	if f := p.facts(t); !f.Ready || f.Envoys.Serving.Pid != before.Pid {
		t.Errorf("%+v", f)
	}
	os.Remove(filler)
	p.wantOK(t, "/hot-restart")
	p.await(t, "a new epoch", func(f facts) bool { return f.Ready && f.Envoys.Serving.Epoch == 1 && f.Envoys.Draining == nil })
	if left, _ := filepath.Glob(filepath.Join(disk, "proxy", "envoy-*.json")); len(left) != 1 {
		t.Errorf("bootstraps: %v", left)
	}
}
