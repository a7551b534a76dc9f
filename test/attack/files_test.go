package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairway/test/rig"
)

// filesPlane is a control plane of its own process, which reads a folder of rules.
type filesPlane struct {
	*rig.Process
	dir, url, grpc string
}

func startFiles(t *testing.T, lay func(dir string), more ...string) *filesPlane {
	t.Helper()
	home := rig.Folder(t)
	p := &filesPlane{
		dir:  filepath.Join(home, "rules"),
		url:  fmt.Sprintf("http://127.0.0.1:%d", rig.FreePort(t)),
		grpc: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)),
	}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.put(t, "small.yaml", entryOf("small", 0))
	lay(p.dir)
	p.Process = rig.ControlPlane{
		Command: rig.Command{Path: discovery.Path(t), Dir: home, Args: append([]string{
			"--configDir", p.dir, "--meshConfig", "", "--networksConfig", "", "--caStateDir", "",
		}, more...)},
		GRPC: p.grpc, HTTP: strings.TrimPrefix(p.url, "http://"),
	}.Launch(t)
	return p
}

func (p *filesPlane) put(t *testing.T, name, text string) {
	t.Helper()
	rig.Write(t, p.dir, name, []byte(text))
}

func entryOf(name string, version int) string {
	return fmt.Sprintf(
		"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: %s\n  namespace: shop\nspec:\n  "+
			"hosts: [%[1]s-v%d.example.com]\n  ports:\n  - {number: 80, name: http, protocol: HTTP}\n  resolution: DNS\n",
		name,
		version,
	)
}

func (p *filesPlane) page(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inForce waits until a host is known, or no longer.
func (p *filesPlane) inForce(t *testing.T, host string, want bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		if strings.Contains(p.page(t, "/debug/configz"), host) != want {
			return fmt.Errorf("%s in force: %t", host, !want)
		}
		return nil
	})
}

// says waits until the problems name something that was just done, at most soon after it.
func (p *filesPlane) says(t *testing.T, what string) {
	t.Helper()
	var s sent
	s.now()
	p.tellsSoon(t, &s, what)
}

// soon is how long it may take until the program reports the things that it left out.
const soon = 5 * time.Second

// sent is when a server had sent all of its attack for the first time.
type sent struct{ at atomic.Int64 }

func (s *sent) now() { s.at.CompareAndSwap(0, time.Now().UnixNano()) }

// told returns an error unless the problems or the states of the sources have a text.
func (p *filesPlane) told(t *testing.T, what string) error {
	t.Helper()
	for _, page := range []string{"/debug/problems", "/debug/sourcez"} {
		if strings.Contains(p.page(t, page), what) {
			return nil
		}
	}
	return fmt.Errorf("nothing says %q:\n%.3000s\n%.3000s", what, p.page(t, "/debug/sourcez"), p.page(t, "/debug/problems"))
}

// tells waits until the pages say something, and fails the test if that takes longer than within. It is for texts that take longer than
// soon to appear; tellsSoon is for all other texts.
func (p *filesPlane) tells(t *testing.T, within time.Duration, what string) {
	t.Helper()
	from := time.Now()
	rig.Eventually(t, func() error { return p.told(t, what) })
	if took := time.Since(from); took > within {
		t.Errorf("%q is told after %s", what, took)
	}
}

// telling is something that the pages say once it was sent.
type telling struct {
	sent *sent
	what string

	before time.Duration // of a processor, when it was sent
	known  bool          // before is
	told   bool
}

// tellsSoon waits until the pages say something, at most soon after it was sent. If other work of the machine leaves the program less than
// that time of a processor, it may take three times as long.
func (p *filesPlane) tellsSoon(t *testing.T, s *sent, what string) {
	t.Helper()
	p.tellsAllSoon(t, telling{sent: s, what: what})
}

// tellsAllSoon is tellsSoon for several texts, which may appear in any order.
func (p *filesPlane) tellsAllSoon(t *testing.T, all ...telling) {
	t.Helper()
	rig.Eventually(t, func() error {
		var missing []error
		for i := range all {
			w := &all[i]
			if w.told {
				continue
			}
			if !w.known && w.sent.at.Load() != 0 {
				w.before, w.known = p.CPU(t), true
			}
			if err := p.told(t, w.what); err != nil {
				missing = append(missing, err)
				continue
			}
			w.told = true
			p.wasSoon(t, *w)
		}
		return errors.Join(missing...)
	})
}

// wasSoon checks that a text that has just appeared did so soon enough.
func (p *filesPlane) wasSoon(t *testing.T, w telling) {
	t.Helper()
	if !w.known {
		t.Logf("%q is told before all was sent", w.what)
		return
	}
	took, worked := time.Since(time.Unix(0, w.sent.at.Load())), p.CPU(t)-w.before
	if took > soon && (worked > soon || took > 3*soon) {
		t.Errorf("%q is told %s after it was sent, after %s of work; want at most %s", w.what, took, worked, soon)
	}
	t.Logf("%q is told %s after it was sent, after %s of work", w.what, took, worked)
}

func aliasBomb(size int) string {
	return "x: &x [" + strings.Repeat("a, ", size/6) + "a]\ny: [" + strings.Repeat("*x, ", size/8) + "*x]\n"
}

// TestFilesOfHostiles: bombs of one, three and sixty megabytes, a file of a gigabyte of nothing, a pipe and a device
// are problems within 5 s; they take little memory, and an edit of a small file is in force while they are read.
func TestFilesOfHostiles(t *testing.T) {
	p := startFiles(t, func(string) {})
	before := p.Memory(t)
	edit := func(version int) time.Duration {
		start := time.Now()
		p.put(t, "small.yaml", entryOf("small", version))
		p.inForce(t, fmt.Sprintf("small-v%d.", version), true)
		return time.Since(start)
	}
	var usual time.Duration
	for v := range 10 {
		usual = max(usual, edit(v+1))
	}
	p.put(t, "one.yaml", aliasBomb(1<<20))
	p.put(t, "three.yaml", aliasBomb(3<<20))
	p.put(t, "sixty.yaml", aliasBomb(60<<20))
	p.put(t, "json.json", `{"spec":[`+strings.TrimSuffix(strings.Repeat("{},", 10<<20), ",")+"]}")
	for name, make := range map[string]func(path string) error{
		"sparse.yaml": func(path string) error {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		},
		"pipe.yaml":   func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"device.yaml": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		if err := make(filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var laid sent
	laid.now()
	var slowest time.Duration
	for v := range 20 {
		slowest = max(slowest, edit(v+100))
	}
	var files []telling
	for _, name := range []string{"one.yaml", "three.yaml", "sixty.yaml", "json.json", "sparse.yaml", "pipe.yaml", "device.yaml"} {
		files = append(files, telling{sent: &laid, what: name})
	}
	p.tellsAllSoon(t, files...)
	after := p.KeepsBelow(t, before.Own+256<<20, before.Resident+1<<30)
	t.Logf("memory %v, then %v; an edit took %v at most, %v beside the bombs", before, after, usual, slowest)
	if slowest > 10*usual+2*time.Second {
		t.Errorf("an edit took %v beside bombs, %v without", slowest, usual)
	}
}

// TestFilesOfALargeMesh: a file of forty megabytes that is right, with many documents, comes into force while small edits do.
func TestFilesOfALargeMesh(t *testing.T) {
	p := startFiles(t, func(string) {})
	var all bytes.Buffer
	for i := 0; all.Len() < 40<<20; i++ {
		fmt.Fprintf(
			&all,
			"%s---\n",
			strings.Replace(entryOf(fmt.Sprintf("large%d", i), 0), "  namespace",
				"  annotations:\n    words: "+strings.Repeat("words ", 150)+"\n  namespace", 1),
		)
	}
	rig.Write(t, p.dir, "large.yaml", all.Bytes())
	start := time.Now()
	var slowest time.Duration
	for v := 1; v <= 10; v++ {
		from := time.Now()
		p.put(
			t,
			"small.yaml",
			fmt.Sprintf(
				"apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: small, namespace: "+
					"shop}\nspec: {address: 10.9.9.%d}\n",
				v,
			),
		)
		rig.Eventually(t, func() error { // a page that lists all would be the slowest part
			if text := p.page(t, "/debug/configz?kind=WorkloadEntry"); !strings.Contains(text, fmt.Sprintf(`"10.9.9.%d"`, v)) {
				return fmt.Errorf("version %d is not in force", v)
			}
			return nil
		})
		slowest = max(slowest, time.Since(from))
	}
	p.inForce(t, "large0-v0.", true)
	t.Logf("%d bytes in force after %v; an edit took %v at most; %v", all.Len(), time.Since(start), slowest, p.Memory(t))
}

// TestFilesThatGo: the folder of rules is away, is empty as an unmounted one, and comes back: nothing is ever gone, and
// the metric and the problems tell.
func TestFilesThatGo(t *testing.T) {
	p := startFiles(t, func(dir string) { rig.Write(t, dir, "sub/other.yaml", []byte(entryOf("other", 0))) })
	away := p.dir + ".away"
	if err := os.Rename(p.dir, away); err != nil {
		t.Fatal(err)
	}
	p.says(t, "the folder cannot be read")
	if text := p.page(t, "/metrics"); !strings.Contains(text, "\nfairway_source_unreadable 1\n") {
		t.Error("no metric says that a folder cannot be read")
	}
	p.inForce(t, "small-v0.", true)
	p.inForce(t, "other-v0.", true)
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.says(t, "another folder is in its place, and it is empty")
	p.inForce(t, "small-v0.", true)
	if err := os.Remove(p.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, p.dir); err != nil {
		t.Fatal(err)
	}
	p.put(t, "small.yaml", entryOf("small", 1))
	p.inForce(t, "small-v1.", true)
	p.inForce(t, "other-v0.", true)
	rig.Eventually(t, func() error {
		if text := p.page(t, "/metrics"); !strings.Contains(text, "\nfairway_source_unreadable 0\n") {
			return fmt.Errorf("the metric stays")
		}
		return nil
	})
	if err := os.Remove(filepath.Join(p.dir, "sub/other.yaml")); err != nil {
		t.Fatal(err)
	}
	p.inForce(t, "other-v0.", false)
}

// TestFilesOfManyLinks: thirty folders, each with two links to the next, are a thousand million paths and thirty folders.
func TestFilesOfManyLinks(t *testing.T) {
	start := time.Now()
	p := startFiles(t, func(dir string) {
		for i := range 30 {
			level := filepath.Join(filepath.Dir(dir), "deep", fmt.Sprint(i))
			rig.Write(t, level, "x.yaml", []byte(entryOf(fmt.Sprintf("deep%d", i), 0)))
			for _, link := range []string{"a", "b"} {
				if err := os.Symlink(fmt.Sprintf("../%d", i+1), filepath.Join(level, link)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Symlink("../deep/0", filepath.Join(dir, "deep")); err != nil {
			t.Fatal(err)
		}
	})
	p.inForce(t, "deep29-v0.", true)
	if cpu := p.CPU(t); cpu > 30*time.Second {
		t.Errorf("it took %v of processor time", cpu)
	}
	t.Logf("in force after %v, processor time %v", time.Since(start), p.CPU(t))
}

// TestFilesNamedByFlags: a pipe does not hold up the start.
func TestFilesNamedByFlags(t *testing.T) {
	dir := rig.Folder(t)
	pipe := filepath.Join(dir, "mesh.yaml")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	p := rig.ControlPlane{
		Command: rig.Command{Path: discovery.Path(t), Dir: dir, Args: []string{
			"--meshConfig", pipe, "--networksConfig", "", "--caStateDir", "",
		}},
		GRPC: "127.0.0.1:0",
	}.Launch(t)
	if code := p.Exit(t); code != 2 || !strings.Contains(p.Log.String(), "not a regular file") {
		t.Errorf("code %d\n%s", code, p.Log)
	}
}
