package watch

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// awaitChange waits until one change is reported.
func awaitChange(t *testing.T, f *Follower, what string) {
	t.Helper()
	select {
	case <-f.Changed():
	case <-time.After(20 * time.Second):
		t.Fatalf("%s was not told", what)
	}
}

// TestFiles: without events each change is reported once.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	large := filepath.Join(t.TempDir(), "large")
	os.WriteFile(a, []byte("one"), 0o600)
	os.WriteFile(large, make([]byte, 2<<20), 0o600)
	asked := make(chan struct{})
	f := Follow(Options{Every: time.Millisecond, Quiet: time.Millisecond, Files: func() []string {
		select {
		case asked <- struct{}{}:
		default: // the test does not wait for a look
		}
		return []string{a, b}
	}})
	for _, change := range []func() error{
		func() error { return os.WriteFile(a, []byte("two"), 0o600) },
		func() error { return os.Rename(large, b) },
		func() error { return os.Rename(b, a) },
		func() error { return os.Remove(a) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		awaitChange(t, f, "a change")
	}
	for range 5 {
		<-asked
	}
	if f.watcher != nil {
		t.Error("folders are watched though the looks are all that is asked for")
	}
	f.Stop()
	if len(f.Changed()) != 0 {
		t.Error("a change too many")
	}
}

// TestEventsBringTheLookForward: every kind of change is reported long before the regular look, whatever other programs do in the folder.
func TestEventsBringTheLookForward(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	version := func(name, text string) { // as Kubernetes lays out a mounted Secret
		must(os.Mkdir(in(name), 0o700))
		must(os.WriteFile(in(name+"/tls.crt"), []byte(text), 0o600))
		must(os.Symlink(name, in("..data_tmp")))
		must(os.Rename(in("..data_tmp"), in("..data")))
	}
	version("..one", "one")
	must(os.Symlink("..data/tls.crt", in("tls.crt")))
	must(os.WriteFile(in("plain"), []byte("one"), 0o600))
	f := Follow(Options{
		Files: func() []string { return []string{in("tls.crt"), in("plain"), in("missing")} },
		Quiet: time.Millisecond,
		Every: time.Hour,
	})
	defer f.Stop()
	for what, change := range map[string]func(){
		"a write in place":     func() { must(os.WriteFile(in("plain"), []byte("two"), 0o600)) },
		"a file that comes":    func() { must(os.WriteFile(in("missing"), nil, 0o600)) },
		"a link that is moved": func() { version("..two", "two") },
		"a rename into place": func() {
			must(os.WriteFile(in("next"), []byte("three"), 0o600))
			must(os.Rename(in("next"), in("plain")))
		},
	} {
		change()
		awaitChange(t, f, what)
		must(os.WriteFile(in("other"), []byte(what), 0o600))
	}
	must(os.Remove(in("plain")))
	awaitChange(t, f, "a removal")
}

// TestNoiseDoesNotPutTheLookOff: other programs may write in the folder all the time.
func TestNoiseDoesNotPutTheLookOff(t *testing.T) {
	dir := t.TempDir()
	file, noise := filepath.Join(dir, "file"), filepath.Join(dir, "noise")
	f := Follow(Options{Files: func() []string { return []string{file} }, Quiet: 10 * time.Millisecond, Every: time.Hour})
	defer f.Stop()
	if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	late := time.After(20 * time.Second)
	for i := 0; ; i++ {
		if err := os.WriteFile(noise, []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case <-f.Changed():
			return
		case <-late:
			t.Fatal("a change was not told")
		default:
		}
	}
}

// TestWithoutInstances: if the system gives no inotify instance, this is logged once, and the files are compared from time to time; when
// there is one they are watched.
func TestWithoutInstances(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(Options{
			Files: func() []string { return []string{file, file + "2"} },
			Quiet: 50 * time.Millisecond,
			Every: time.Hour,
			Log:   slog.New(slog.NewTextHandler(&log, nil)),
		})
		f.open = func(int) *Watcher {
			return &Watcher{failed: syscall.EMFILE, out: make(chan []Event), done: make(chan struct{})}
		}
		f.begin()
		began := time.Now()
		for _, text := range []string{"one", "two"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			<-f.Changed()
		}
		if took := time.Since(began); took > 2*(notWatched+50*time.Millisecond) {
			t.Errorf("two changes took %s", took)
		}
		f.Stop()
	})
	if n := strings.Count(log.String(), "files are not watched"); n != 1 || !strings.Contains(log.String(), "every=2s") {
		t.Errorf("it was said %d times:\n%s", n, &log)
	}
}

// TestFolderThatCannotBeWatched: the other folders are watched, and the files of this one are compared from time to time.
func TestFolderThatCannotBeWatched(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFollower(Options{
		Files: func() []string { return []string{filepath.Join(none, "file"), filepath.Join(dir, "file")} },
		Quiet: time.Millisecond,
		Every: time.Hour,
	})
	f.begin()
	if f.idle() != notWatched {
		t.Errorf("looks every %s", f.idle())
	}
	f.Stop()
	f = Follow(Options{Files: func() []string { return []string{filepath.Join(dir, "missing", "file")} }, Quiet: 1, Every: time.Hour})
	f.Stop()
	if f.unwatched {
		t.Error("a folder that may come is taken for one that cannot be watched")
	}
}

// TestFilesOfOtherKinds: a pipe is not read, but a file that replaces it is.
func TestFilesOfOtherKinds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f := Follow(Options{Files: func() []string { return []string{pipe} }, Quiet: time.Millisecond, Every: time.Hour})
	defer f.Stop()
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, f, "the removal of a pipe")
	if err := os.WriteFile(pipe, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, f, "a file in its place")
}
