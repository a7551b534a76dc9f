package release_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fairway"
	"fairway/test/netns"
	"fairway/test/rig"
)

// release makes packages and archives, and returns their folder.
func release(t *testing.T, tool, programs string) (to string) {
	t.Helper()
	at := root(t)
	to = rig.Folder(t)
	words := append([]string{
		tool, "packages", "-programs", programs, "-chart", filepath.Join(at, "deploy", "chart"), "-license", filepath.Join(at, "LICENSE"),
		"-files", filepath.Join(at, "tools", "release", "pack", "files"), "-readme", filepath.Join(at, "README.md"), "-to", to,
	}, says()...)
	if err := command(at, words...); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestRelease: there is a file of each kind; the checksums are right; the bill of materials is complete; a second build is equal.
func TestRelease(t *testing.T) {
	tool, programs := need(t, "sha256sum")
	first := release(t, tool, programs)
	if err := command(first, "sha256sum", "--check", "--strict", "SHA256SUMS"); err != nil {
		t.Error(err)
	}
	all := hashes(t, first)
	var kinds []string
	for name := range all {
		kinds = append(kinds, filepath.Ext(name))
	}
	slices.Sort(kinds)
	if want := []string{"", ".deb", ".deb", ".deb", ".gz", ".json", ".rpm", ".rpm", ".rpm", ".tgz"}; !slices.Equal(kinds, want) {
		t.Errorf("the files are %v", slices.Sorted(maps.Keys(all)))
	}
	text, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if n := strings.Count(string(text), "\n"); err != nil || n != len(all)-1 {
		t.Errorf("there are checksums of %d of %d files: %v", n, len(all)-1, err)
	}
	bill(t, filepath.Join(first, "fairway-"+fairway.Release+".spdx.json"))
	if again := hashes(t, release(t, tool, programs)); !maps.Equal(all, again) {
		t.Errorf("two builds are\n%v\n%v", all, again)
	}
}

// bill checks the bill of materials: every module that go.mod requires directly is in it if a program has it, with its version.
func bill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		SPDXVersion, SPDXID, DocumentNamespace string
		Packages                               []struct{ SPDXID, Name, VersionInfo string }
		Relationships                          []struct{ SPDXElementID, RelationshipType, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	ids, versions := map[string]bool{b.SPDXID: true}, map[string]string{}
	for _, p := range b.Packages {
		if ids[p.SPDXID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.SPDXID) {
			t.Errorf("the identifier %q is there twice, or none", p.SPDXID)
		}
		ids[p.SPDXID], versions[p.Name] = true, p.VersionInfo
	}
	for _, r := range b.Relationships {
		if !ids[r.SPDXElementID] || !ids[r.RelatedSPDXElement] {
			t.Errorf("%v: no such package", r)
		}
	}
	required, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"google.golang.org/grpc", "istio.io/api", "k8s.io/client-go", "github.com/spf13/cobra"} {
		m := regexp.MustCompile(`\b` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(required)
		if m == nil || versions[module] != string(m[1]) {
			t.Errorf("%s has the version %q in the bill", module, versions[module])
		}
	}
	goes := strings.TrimPrefix(runtime.Version(), "go")
	if b.SPDXVersion != "SPDX-2.3" || versions["pilotctl"] != fairway.Release || versions["stdlib"] != goes {
		t.Errorf("the bill is %s of %s and Go %s", b.SPDXVersion, versions["pilotctl"], versions["stdlib"])
	}
}

// machine is this machine as a program sees it that writes to a copy: an overlay over its files.
type machine struct{ root string }

func copied(t *testing.T) machine {
	t.Helper()
	dir := rig.Folder(t)
	over := filepath.Join(dir, "over")
	for _, name := range []string{"over", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(kind, to, options string) {
		t.Helper()
		if err := unix.Mount(kind, to, kind, 0, options); err != nil {
			t.Skipf("this machine forbids %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	mount("tmpfs", over, "mode=755")
	for _, name := range []string{"up", "work"} {
		if err := os.Mkdir(filepath.Join(over, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := machine{filepath.Join(dir, "root")}
	mount("overlay", m.root, "lowerdir=/,upperdir="+filepath.Join(over, "up")+",workdir="+filepath.Join(over, "work"))
	return m
}

// runs runs a shell's command there, with its output.
func (m machine) runs(t *testing.T, line string) (string, error) {
	t.Helper()
	c := exec.Command("unshare", "--mount", "--mount-proc", "--root="+m.root, "--wd=/", "--", "/bin/sh", "-c", line)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	out, err := c.CombinedOutput()
	return string(out), err
}

func (m machine) does(t *testing.T, line string) string {
	t.Helper()
	out, err := m.runs(t, line)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// own are the files of the project that a machine has.
func (m machine) own(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range []string{"etc/fairway", "usr/bin", "usr/lib/systemd/system", "usr/lib/sysusers.d", "usr/share/man/man1"} {
		_ = filepath.WalkDir(filepath.Join(m.root, dir), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, m.root)
			if err == nil && !d.IsDir() && (strings.Contains(name, "/pilot") || strings.HasPrefix(name, "/etc/fairway/")) {
				out = append(out, name)
			}
			return nil
		})
	}
	return out
}

// TestDebian: dpkg installs the packages; the units are valid, and the control plane's command serves as its user. After a removal only
// edited files and the state stay, after a purge only the state.
func TestDebian(t *testing.T) {
	tool, programs := need(t, "dpkg", "unshare", "systemd-sysusers", "systemd-analyze", "runuser")
	from := release(t, tool, programs)
	m := copied(t)
	if had := m.own(t); len(had) > 0 {
		t.Skipf("this machine has %v already", had)
	}
	debs, err := filepath.Glob(filepath.Join(from, "*.deb"))
	if err != nil || len(debs) != 3 {
		t.Fatal(debs, err)
	}
	for _, deb := range debs {
		text, err := os.ReadFile(deb)
		if err != nil {
			t.Fatal(err)
		}
		rig.Write(t, m.root, "packages/"+filepath.Base(deb), text)
	}
	// systemd does not run there.
	m.does(t, "rm -rf /run/systemd/system; dpkg -i --force-depends /packages/*.deb")
	for _, program := range []string{"pilot-discovery", "pilot-agent", "pilotctl"} {
		if out := m.does(t, program+" --version"); !strings.Contains(out, program+" version "+fairway.Version) {
			t.Errorf("%s says %q", program, out)
		}
		if out := m.does(t, "gzip -dc /usr/share/man/man1/"+program+".1.gz"); !strings.Contains(out, ".SH SYNOPSIS") {
			t.Errorf("the manual of %s is %q", program, out)
		}
		if out := m.does(t, "bash -n /usr/share/bash-completion/completions/"+program+"; dpkg -V "+program); out != "" {
			t.Errorf("%s: %s", program, out)
		}
	}
	if out := m.does(t, "systemd-analyze verify pilot-discovery.service pilot-agent.service 2>&1"); strings.Contains(out, "pilot-") {
		t.Errorf("systemd says of the units\n%s", out)
	}
	m.serves(t)

	m.does(t, "echo '# mine' >>/etc/fairway/mesh.yaml; dpkg -r pilot-discovery pilot-agent pilotctl")
	want := []string{"/etc/fairway/mesh.yaml", "/etc/fairway/pilot-discovery.env"}
	if left := m.own(t); !slices.Equal(left, want) {
		t.Errorf("removed, %v stays", left)
	}
	m.does(t, "dpkg -P pilot-discovery pilot-agent pilotctl; test -e /var/lib/fairway/ca/root-cert.pem; id fairway; id istio-proxy")
	if left := m.own(t); len(left) > 0 {
		t.Errorf("purged, %v stays", left)
	}
}

var start = regexp.MustCompile(`(?m)^ExecStart=(.*)$`)

// serves runs the command of the control plane's unit as its user, with the folders that systemd makes for it.
func (m machine) serves(t *testing.T) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(m.root, "usr/lib/systemd/system/pilot-discovery.service"))
	if err != nil {
		t.Fatal(err)
	}
	line := string(start.FindSubmatch(unit)[1])
	m.does(t, "install -d -m 0700 -o fairway -g fairway /var/lib/fairway/ca /var/lib/fairway/state")
	in := netns.New(t)
	in.Wire(t, func(l netns.Links) { l.Up("lo", "127.0.0.1/8") })
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -a; . /etc/fairway/pilot-discovery.env; cd /var/lib/fairway; " +
		"exec setpriv --reuid=fairway --regid=fairway --clear-groups " + line
	p := rig.Launch(t, rig.Command{
		Name: "unit", Path: path, Dir: m.root, In: in,
		Args: []string{"--mount", "--mount-proc", "--root=" + m.root, "--wd=/", "--", "/bin/sh", "-c", script},
	})
	answers(t, in, p, "http://127.0.0.1:8080/ready", "")
	code, _, err := rig.Call(http.MethodGet, "http://127.0.0.1:15014/metrics", in.DialContext)
	if err != nil || code != http.StatusOK {
		t.Errorf("metrics: %d, %v", code, err)
	}
	p.Stop()
}
