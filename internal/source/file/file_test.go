package file

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

const open = quiet * openFactor

func TestStart(t *testing.T) {
	b := newBed(t)
	b.mkdir("deep/er")
	b.mkdir(".git")
	b.write("a.yaml", "# a comment\n\n"+entryText("a", "a.com")+"---\n"+entryText("b", "b.com"))
	b.write("deep/er/c.yml", entryText("c", "c.com"))
	b.write(
		"deep/d.json",
		`{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"d"},"spec":{"hosts":["d.com"],"ports":[{"number":80,"name":"http"}],"resolution":"DNS"}}`,
	)
	for _, ignored := range []string{".a.yaml.swp", "a.yaml~", ".#a.yaml", "#a.yaml#", "README.md", ".git/x.yaml", ".hidden.yaml"} {
		b.write(ignored, entryText("ignored", "i.com"))
	}
	b.start()
	b.inForce("a a.yaml:3", "b a.yaml:15", "c deep/er/c.yml:1", "d deep/d.json:1")
}

func TestNoRulesAtAllIsSynced(t *testing.T) {
	b := newBed(t)
	b.start()
	b.inForce()
}

func TestRenameIsAppliedAtOnce(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	b.place("b.yaml", entryText("b", "b.com"))
	b.next()
	b.place("a.yaml", entryText("a", "other.com"))
	batch := b.next()
	b.inForce("a a.yaml:1", "b b.yaml:1")
	if len(batch.Set) != 1 || len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
}

func TestHalfWrittenFileIsNeverApplied(t *testing.T) {
	b := newBed(t)
	b.start()
	f, err := os.Create(b.path("a.yaml"))
	b.must(err)
	text := entryText("a", "a.com")
	_, err = f.WriteString(text[:len(text)/2])
	b.must(err)
	b.clock.await(t, open)
	b.none()
	_, err = f.WriteString(text[len(text)/2:])
	b.must(err)
	b.must(f.Close())
	b.clock.fire(t, quiet)
	b.next()
	b.inForce("a a.yaml:1")
}

func TestTruncatedFileDeletesNothing(t *testing.T) {
	text := entryText("a", "a.com") + "---\n" + entryText("b", "b.com")
	b := newBed(t, "ab.yaml", text)
	b.start()
	f, err := os.OpenFile(b.path("ab.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	b.must(err)
	_, err = f.WriteString(entryText("a", "other.com"))
	b.must(err)
	b.clock.await(t, open)
	b.none()
	_, err = f.WriteString("---\n" + entryText("b", "b.com"))
	b.must(err)
	b.must(f.Close())
	b.clock.fire(t, quiet)
	batch := b.next()
	if len(batch.Set) != 1 || batch.Set[0].Name != "a" || len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
}

// TestPipeIsToldSoon: the source does not wait for somebody to close a new pipe.
func TestPipeIsToldSoon(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	b.must(syscall.Mkfifo(b.path("pipe.yaml"), 0o644))
	b.clock.fire(t, quiet)
	b.next()
	if p := b.problem("pipe.yaml"); !strings.Contains(p.Message, "not a regular file") {
		t.Errorf("said of a pipe: %s", p.Message)
	}
}

// TestWriterWhoNeverCloses: what a writer keeps open is taken all the same, in the end.
func TestWriterWhoNeverCloses(t *testing.T) {
	b := newBed(t)
	b.start()
	f, err := os.Create(b.path("a.yaml"))
	b.must(err)
	defer f.Close()
	_, err = f.WriteString(entryText("a", "a.com"))
	b.must(err)
	b.clock.run(open)
	for len(b.state) == 0 { // the first wait may have been for the creation alone
		b.next()
	}
	b.inForce("a a.yaml:1")
}

// TestBackupAndRename: vim moves the old file away before it writes the new one.
func TestBackupAndRename(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	b.must(os.Rename(b.path("a.yaml"), b.path("a.yaml~")))
	b.clock.await(t, quiet)
	b.none()
	b.write("a.yaml", entryText("a", "other.com"))
	b.must(os.Remove(b.path("a.yaml~")))
	b.clock.fire(t, quiet)
	batch := b.next()
	if len(batch.Set) != 1 || len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
}

func TestRemovedFile(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"), "b.yaml", entryText("b", "b.com"))
	b.start()
	b.must(os.Remove(b.path("a.yaml")))
	b.clock.fire(t, quiet)
	b.next()
	b.inForce("b b.yaml:1")
}

func TestRenamedFileMovesItsObjects(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	b.must(os.Rename(b.path("a.yaml"), b.path("b.yaml")))
	batch := b.next()
	b.inForce("a b.yaml:1")
	if len(batch.Delete) != 0 || len(batch.Problems[b.path("b.yaml")]) != 0 {
		t.Errorf("delete %v, problems %v", batch.Delete, batch.Problems)
	}
}

func TestBadDocumentHurtsOnlyItself(t *testing.T) {
	b := newBed(t, "ab.yaml", entryText("a", "a.com")+"---\n"+entryText("b", "b.com"))
	b.start()
	bad := strings.Replace(entryText("a", "a.com"), "number: 80", "number: eighty", 1)
	b.place("ab.yaml", bad+"---\n"+entryText("b", "other.com"))
	batch := b.next()
	if len(batch.Set) != 1 || batch.Set[0].Name != "b" || len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
	p := b.problem("ab.yaml")
	if p.Line != 8 || p.Field != "spec.ports[0].number" || p.Severity != mesh.Error || !strings.Contains(p.Message, "stays in force") {
		t.Errorf("problem: %+v", p)
	}
	b.place("ab.yaml", bad)
	b.next()
	b.inForce("a ab.yaml:1")
	b.place("ab.yaml", entryText("a", "a.com"))
	b.next()
	if list := b.said[b.path("ab.yaml")]; len(list) != 0 {
		t.Errorf("still said: %v", list)
	}
	b.inForce("a ab.yaml:1")
}

// TestUnreadableDocument: where not even the name can be read, nothing that may have been meant is lost.
func TestUnreadableDocument(t *testing.T) {
	for name, bad := range map[string]string{
		"no YAML":  "a: [b\n",
		"named":    "kind: ServiceEntry\nmetadata:\n  name: a\n\tx\n",
		"no UTF-8": "\xff\xfe\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "ab.yaml", entryText("a", "a.com")+"---\n"+entryText("b", "b.com"))
			b.start()
			b.place("ab.yaml", bad+"---\n"+entryText("b", "other.com"))
			batch := b.next()
			if len(batch.Set) == 0 || len(batch.Delete) != 0 {
				t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
			}
			if p := b.problem("ab.yaml"); !strings.Contains(p.Message, "stays in force") || p.Line == 0 {
				t.Errorf("problem: %+v", p)
			}
			b.inForce("a ab.yaml:1", batch.Set[0].Name+" ab.yaml:"+map[string]string{"no YAML": "3", "named": "6", "no UTF-8": "3"}[name])
		})
	}
}

func TestSameObjectTwice(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("x", "a.com"), "b.yaml", entryText("x", "b.com"))
	b.start()
	b.inForce("x a.yaml:1")
	if p := b.problem("b.yaml"); p.Code != "DuplicateObject" || !strings.Contains(p.Message, "a.yaml:1") {
		t.Errorf("problem: %+v", p)
	}
	b.must(os.Remove(b.path("a.yaml")))
	b.clock.fire(t, quiet)
	b.next()
	b.inForce("x b.yaml:1")
	if list := b.said[b.path("b.yaml")]; len(list) != 0 {
		t.Errorf("still said: %v", list)
	}
	b.place("0.yaml", entryText("x", "0.com"))
	b.next()
	b.inForce("x 0.yaml:1")
	b.problem("b.yaml")
}

// TestConfigMap does what a kubelet does: a new folder, a new link to it, a rename of the link.
func TestConfigMap(t *testing.T) {
	b := newBed(t)
	b.mkdir("..1")
	b.write("..1/a.yaml", entryText("a", "a.com"))
	b.must(os.Symlink("..1", b.path("..data")))
	b.must(os.Symlink("..data/a.yaml", b.path("a.yaml")))
	b.start()
	b.inForce("a a.yaml:1")
	b.mkdir("..2")
	b.write("..2/a.yaml", entryText("a", "other.com"))
	b.write("..2/b.yaml", entryText("b", "b.com"))
	b.must(os.Symlink("..2", b.path("..data_tmp")))
	b.must(os.Rename(b.path("..data_tmp"), b.path("..data")))
	b.must(os.Symlink("..data/b.yaml", b.path("b.yaml")))
	b.must(os.RemoveAll(b.path("..1")))
	for len(b.state) < 2 || b.state[key("a")].Spec == nil {
		b.next()
	}
	b.inForce("a a.yaml:1", "b b.yaml:1")
}

func key(name string) config.Key {
	return config.Key{Kind: config.ServiceEntry, Namespace: "default", Name: name}
}

func TestDirectories(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	away := filepath.Join(filepath.Dir(b.dir), "away")
	b.must(os.MkdirAll(filepath.Join(away, "in"), 0o755))
	b.must(os.WriteFile(filepath.Join(away, "in", "c.yaml"), []byte(entryText("c", "c.com")), 0o644))
	b.must(os.Rename(away, b.path("d")))
	b.next()
	b.inForce("a a.yaml:1", "c d/in/c.yaml:1")
	b.place("d/in/e.yaml", entryText("e", "e.com"))
	b.next()
	b.must(os.Rename(b.path("d"), b.path("f")))
	b.next()
	b.inForce("a a.yaml:1", "c f/in/c.yaml:1", "e f/in/e.yaml:1")
	b.place("f/in/e.yaml", entryText("e", "other.com"))
	b.next()
	b.must(os.RemoveAll(b.path("f")))
	b.clock.run(quiet)
	for len(b.state) > 1 { // the two files may be seen to go one by one
		b.next()
	}
	b.inForce("a a.yaml:1")
}

func TestNewDirectoryWrittenInPlace(t *testing.T) {
	b := newBed(t)
	b.start()
	b.mkdir("x/y")
	b.write("x/y/a.yaml", entryText("a", "a.com"))
	b.clock.run(quiet)
	for len(b.state) == 0 {
		b.next()
	}
	b.inForce("a x/y/a.yaml:1")
}

func TestLinkedTreeIsSwapped(t *testing.T) {
	b := newBed(t)
	root := filepath.Dir(b.dir)
	for _, v := range []string{"v1", "v2"} {
		b.must(os.MkdirAll(filepath.Join(root, v), 0o755))
		b.must(os.WriteFile(filepath.Join(root, v, v+".yaml"), []byte(entryText(v, v+".com")), 0o644))
	}
	link := filepath.Join(root, "current")
	b.must(os.Symlink("v1", link))
	b.start(func(o *Options) { o.Dirs = []string{link} })
	b.dir = link
	b.inForce("v1 v1.yaml:1")
	b.must(os.Symlink("v2", link+"_tmp"))
	b.must(os.Rename(link+"_tmp", link))
	b.next()
	b.inForce("v2 v2.yaml:1")
	b.place("v2.yaml", entryText("v2", "other.com"))
	b.next()
}

func TestLinkLoop(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.must(os.Symlink(".", b.path("loop")))
	b.start()
	b.inForce("a a.yaml:1")
}

func TestMeshConfig(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	path := filepath.Join(filepath.Dir(b.dir), "mesh.yaml")
	b.must(os.WriteFile(path, []byte("rootNamespace: r\n"), 0o644))
	b.start(func(o *Options) { o.MeshConfig = path })
	k := config.Key{Kind: config.MeshConfig}
	first := b.state[k]
	if first == nil {
		t.Fatal("no mesh configuration")
	}
	b.place("../mesh.yaml", "rootNamespace: s\nconnectTimeout: soon\n")
	batch := b.next()
	if len(batch.Set)+len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
	if p := b.said[path][0]; p.Line != 2 || p.Field != "connectTimeout" || p.Object.Kind != "MeshConfig" {
		t.Errorf("problem: %+v", p)
	}
	b.place("../mesh.yaml", "rootNamespace: s\n")
	b.next()
	if b.state[k] == first || len(b.said[path]) != 0 {
		t.Errorf("not reloaded: %v", b.said[path])
	}
	b.must(os.Remove(path))
	b.clock.fire(t, quiet)
	if batch := b.next(); len(batch.Delete) != 1 {
		t.Errorf("delete %v", batch.Delete)
	}
}

// TestFreshFilesAtStart: a file that was written a moment ago may not be complete yet.
func TestFreshFilesAtStart(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	info, err := os.Stat(b.path("a.yaml"))
	b.must(err)
	b.clock.now = info.ModTime()
	go b.clock.fire(t, quiet)
	b.start()
	b.inForce("a a.yaml:1")
}

// TestUnreadableFile: a file that cannot be read any more keeps what it held.
func TestUnreadableFile(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.start()
	b.must(os.Symlink("a.yaml", b.path("link"))) // leads to itself once it is there
	b.must(os.Rename(b.path("link"), b.path("a.yaml")))
	if batch := b.next(); len(batch.Delete) != 0 {
		t.Errorf("delete %v", batch.Delete)
	}
	if p := b.problem("a.yaml"); p.Code != "Unreadable" {
		t.Errorf("problem: %+v", p)
	}
	b.place("a.yaml", entryText("a", "other.com"))
	b.next()
	if list := b.said[b.path("a.yaml")]; len(list) != 0 {
		t.Errorf("still said: %v", list)
	}
}

// TestMeshConfigInConfigMap: the one file is a link into a folder that is swapped, beside the rules.
func TestMeshConfigInConfigMap(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.mkdir("../mesh/..1")
	b.mkdir("../mesh/..2")
	b.write("../mesh/..1/mesh", "rootNamespace: r\n")
	b.write("../mesh/..2/mesh", "rootNamespace: s\n")
	b.must(os.Symlink("..1", b.path("../mesh/..data")))
	b.must(os.Symlink("..data/mesh", b.path("../mesh/mesh")))
	b.start(func(o *Options) { o.MeshConfig = b.path("../mesh/mesh") })
	first := b.state[config.Key{Kind: config.MeshConfig}]
	b.must(os.Symlink("..2", b.path("../mesh/..data_tmp")))
	b.must(os.Rename(b.path("../mesh/..data_tmp"), b.path("../mesh/..data")))
	if batch := b.next(); len(batch.Set) != 1 || len(batch.Problems) != 1 {
		t.Errorf("set %v, files %v", batch.Set, batch.Problems)
	}
	if b.state[config.Key{Kind: config.MeshConfig}].Hash == first.Hash {
		t.Error("not reloaded")
	}
}

// TestLinkedFileWrittenInPlace: a link's target is outside the tree.
func TestLinkedFileWrittenInPlace(t *testing.T) {
	b := newBed(t)
	b.mkdir("../elsewhere")
	b.write("../elsewhere/target", entryText("a", "a.com"))
	b.must(os.Symlink("../elsewhere/target", b.path("a.yaml")))
	b.start()
	b.inForce("a a.yaml:1")
	b.place("../elsewhere/target", entryText("a", "other.com"))
	b.next()
	b.write("../elsewhere/target", entryText("a", "third.com"))
	b.clock.fire(t, quiet)
	if batch := b.next(); len(batch.Set) != 1 {
		t.Errorf("set %v", batch.Set)
	}
}
