package attack

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/test/rig"
)

// reading is a control plane of its own process that reads a hostile source beside a folder of rules.
type reading struct {
	*filesPlane
	normal int64 // bytes that the same program takes without the source
}

// startReading starts one with more flags. empty is the memory of the program without the source.
func startReading(t *testing.T, more ...string) *reading {
	t.Helper()
	t.Setenv("PILOT_REMOTE_CLUSTER_TIMEOUT", "1s") // the start waits no longer for a source that does not become whole
	return &reading{startFiles(t, func(string) {}, append(more, "--clusterStateDir", "")...), 64 << 20}
}

// most is how much memory the process has had at once so far, in bytes.
func (r *reading) most(t *testing.T) (n int64) {
	t.Helper()
	n, err := mostOf(r.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mostOf is how much memory a process has had at once so far, in bytes. After the process has ended, the kernel may report its parent's
// value, because the process began in its parent's memory.
func mostOf(pid int) (n int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nVmHWM:")
	_, err = fmt.Sscan(rest, &n)
	return n << 10, err
}

// holds fails the test if the program took more than twice its normal size and 256 MiB, or if an edit of a file is not in force soon.
func (r *reading) holds(t *testing.T) { t.Helper(); r.holdsWith(t, 256<<20) }

// holdsWith is holds with another number of bytes than 256 MiB.
func (r *reading) holdsWith(t *testing.T, more int64) {
	t.Helper()
	r.Running(t)
	if most, bound := r.most(t), 2*r.normal+more; most > bound {
		t.Errorf("the program took %d MiB, want at most %d", most>>20, bound>>20)
	} else {
		t.Logf("the program took %d MiB", most>>20)
	}
	var best time.Duration
	for v := range 5 {
		from := time.Now()
		r.put(t, "small.yaml", entryOf("small", 100+v))
		r.inForce(t, fmt.Sprintf("small-v%d.example.com", 100+v), true)
		if took := time.Since(from); best == 0 || took < best {
			best = took
		}
	}
	if best > 500*time.Millisecond {
		t.Errorf("an edit of a file is in force after %s at best", best)
	}
	code, body, err := rig.Call("GET", r.url+"/ready", nil)
	if err != nil || code != 200 {
		t.Errorf("/ready: %d %s %v", code, body, err)
	}
}

// nowhere fails the test if a secret is on a page, or in the log.
func (r *reading) nowhere(t *testing.T, secret string) {
	t.Helper()
	for _, page := range []string{"/debug/problems", "/debug/sourcez"} {
		if strings.Contains(r.page(t, page), secret) {
			t.Errorf("%s has the secret", page)
		}
	}
	if strings.Contains(r.Log.String(), secret) {
		t.Error("the log has the secret")
	}
}

// meanwhile edits a file again and again, 21 times at least, while do runs. It fails the test if half of the edits are not in force
// within 500 ms, or if the program is not ready at some time. It pauses between edits: they are not what the program's work is measured of.
func (r *reading) meanwhile(t *testing.T, do func()) {
	t.Helper()
	var over atomic.Bool
	type result struct {
		took []time.Duration
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var all result
		pause := time.NewTicker(25 * time.Millisecond)
		defer pause.Stop()
		for v := 1000; all.err == nil && (v < 1021 || !over.Load()); v++ {
			<-pause.C
			var took time.Duration
			if took, all.err = r.timed(v); all.err == nil {
				all.took = append(all.took, took)
			}
		}
		done <- all
	}()
	do()
	over.Store(true)
	all := <-done
	if all.err != nil {
		t.Fatal(all.err)
	}
	slices.Sort(all.took)
	half, worst := all.took[len(all.took)/2], all.took[len(all.took)-1]
	if half > 500*time.Millisecond {
		t.Errorf("meanwhile half of %d edits are in force after more than %s", len(all.took), half)
	}
	t.Logf("meanwhile: %d edits, half of them in force within %s, the last one within %s", len(all.took), half, worst)
}

// timed edits a file and returns how long it took until that was in force.
func (r *reading) timed(version int) (time.Duration, error) {
	at := filepath.Join(r.dir, "small.yaml")
	if err := os.WriteFile(at+".new", []byte(entryOf("small", version)), 0o600); err != nil {
		return 0, err
	}
	from := time.Now()
	if err := os.Rename(at+".new", at); err != nil {
		return 0, err
	}
	often := time.NewTicker(5 * time.Millisecond)
	defer often.Stop()
	for host := fmt.Sprintf("small-v%d.example.com", version); time.Since(from) < time.Minute; <-often.C {
		if code, _, err := rig.Call(http.MethodGet, r.url+"/ready", nil); err != nil || code != http.StatusOK {
			return 0, fmt.Errorf("/ready: %d %v", code, err)
		}
		_, body, err := rig.Call(http.MethodGet, r.url+"/debug/configz", nil)
		if err != nil {
			return 0, err
		}
		if strings.Contains(body, host) {
			return time.Since(from), nil
		}
	}
	return 0, fmt.Errorf("edit %d is not in force after a minute", version)
}

const registryToken = "a-token-of-the-registry-that-nobody-may-see-0123456789"

// startRegistry starts a control plane that reads a registry over HTTP. entry is the registry's in its file, with %s where the URL of
// the server belongs, and ends with its options: their closing brace is added, and the token.
func startRegistry(t *testing.T, entry string, h http.Handler) *reading {
	t.Helper()
	server := httptest.NewServer(h)
	token := rig.Write(t, rig.Folder(t), "token", []byte(registryToken))
	text := "registries:\n- name: main\n  " + fmt.Sprintf(entry, server.URL) + fmt.Sprintf(", tokenFile: '%s'}\n", token)
	r := startReading(t, "--registriesConfig", rig.Write(t, rig.Folder(t), "registries", []byte(text)))
	t.Cleanup(func() {
		r.Kill()
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

// drip writes one byte a second, until the client leaves.
func drip(w http.ResponseWriter, q *http.Request, begin string) {
	for text := begin; q.Context().Err() == nil; text = " " {
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-q.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

// zipped answers with a beginning and so many MiB of a text as gzip, which is little on the wire.
func zipped(w http.ResponseWriter, begin, text string, mib int) {
	w.Header().Set("Content-Encoding", "gzip")
	out := gzip.NewWriter(w)
	_, _ = io.WriteString(out, begin)
	for part := strings.Repeat(text, 1<<20/len(text)); mib > 0; mib-- {
		if _, err := io.WriteString(out, part); err != nil {
			return
		}
	}
	_ = out.Close()
}

// atLeast waits until something was counted so often.
func atLeast(t *testing.T, n *atomic.Int64, want int64) {
	t.Helper()
	rig.Eventually(t, func() error {
		if is := n.Load(); is < want {
			return fmt.Errorf("%d times, want %d", is, want)
		}
		return nil
	})
}

// TestNamesTimesPorts: a registry at its limits, with 100 ports for each service, is in force for connected proxies. The memory for that
// grows with its ports alone, and edits of other users go on meanwhile.
func TestNamesTimesPorts(t *testing.T) {
	const services, ports, each = 200, 100, 50 << 10 // bytes that a port may take at most, while they are computed
	ofConsul := `,"Ports":[` + items(ports, ",", `{"Name":"p-%d","Port":2%04[1]d}`) + "]"
	for options, h := range map[string]http.Handler{
		consulOptions: &hostileConsul{services: services, entries: func(i int) string { return "[" + consulEntry(i, 0, ofConsul) + "]" }},
		nomadOptions: &hostileNomad{services: services, entries: func(i int) string {
			var all []string
			for n := range ports {
				all = append(all, nomadEntry(i, n, 20000+n, ""))
			}
			return "[" + strings.Join(all, ",") + "]"
		}},
	} {
		name, _, _ := strings.Cut(options, ":")
		t.Run(name, func(t *testing.T) {
			r := startRegistry(t, options, h)
			r.connect(t, sidecarIn("evil"))
			r.connect(t, sidecarIn("shop"))
			r.meanwhile(t, func() { r.tells(t, time.Minute, fmt.Sprintf("connections to port 20099 of s-%d.", services-1)) })
			r.holdsWith(t, services*ports*each)
			if text := r.page(t, "/debug/problems"); strings.Contains(text, "left out") {
				t.Errorf("within its bounds: %.2000s", text)
			}
		})
	}
}
