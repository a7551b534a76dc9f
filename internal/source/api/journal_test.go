package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
	"fairway/internal/source/api"
)

func open(t *testing.T, files disk.Files, file string) (*api.Source, error) {
	t.Helper()
	return api.NewOn(files, "Memory/test", api.Options{StateFile: file, Address: local}, slog.New(slog.DiscardHandler), decoder(t))
}

// TestRestart: everything is there again, in its revision, and a watch goes on where it was.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	o := api.Options{Address: local, StateFile: file, AwaitSnapshot: true}
	w := start(t, o)
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/reviews", reviews)
	w.want(http.StatusOK, "PUT", "/v1/services/shop/reviews/instances/c", `{"addresses": ["10.0.0.3"], "port": 8080, "ttl": "1h"}`)
	w.want(http.StatusCreated, "PUT", "/v1/objects/VirtualService/shop/v", rule("shop", "v", "80"))
	since := w.Revision()
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/gone", `{}`)
	w.want(http.StatusOK, "DELETE", "/v1/services/shop/gone", ``)
	before, revision := w.sink.content(), w.Revision()
	w.stop()

	again := start(t, o)
	again.sink.says(t, "synced") // it does not wait for a snapshot: it has a state
	if diff := cmp.Diff(before, again.sink.content()); diff != "" {
		t.Error(diff)
	}
	if again.Revision() != revision {
		t.Errorf("the revision is %d, was %d", again.Revision(), revision)
	}
	got := again.watch(fmt.Sprintf("?since=%d", since)).until(revision)
	if diff := cmp.Diff([]string{"delete shop/gone"}, told(got)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestProblemsOfARestart: a problem that was reported before a restart is taken back once its cause is fixed.
func TestProblemsOfARestart(t *testing.T) {
	o := api.Options{Address: local, StateFile: filepath.Join(t.TempDir(), "state")}
	w := start(t, o)
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/odd", `{"addresses": ["127.0.0.1"]}`)
	w.stop()
	again := start(t, o)
	problems := func() int {
		again.sink.mu.Lock()
		defer again.sink.mu.Unlock()
		return len(again.sink.problems["services/shop/odd"])
	}
	if n := problems(); n != 1 {
		t.Fatalf("%d problems are told, want that of the address", n)
	}
	again.want(http.StatusOK, "PUT", "/v1/services/shop/odd", `{"addresses": ["10.0.0.1"]}`)
	if n := problems(); n != 0 {
		t.Errorf("%d problems are told of what is right", n)
	}
}

// TestTornState: a line that a crash left half-written is left out; damage elsewhere is an error with its line, and never
// taken for a smaller state.
func TestTornState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, err := open(t, disk.OS, file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := s.PutService(api.Service{Namespace: "n", Name: fmt.Sprint("s", i)}, api.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if len(lines) != 5 { // the head, three services, nothing
		t.Fatalf("the state is %q", whole)
	}
	has := func(content []byte) (n int, err error) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := open(t, disk.OS, file)
		if err != nil {
			return 0, err
		}
		for i := range 3 {
			if _, ok := s.Service("n", fmt.Sprint("s", i)); ok {
				n++
			}
		}
		return n, nil
	}
	upToLast := len(whole) - len(lines[3])
	for cut := upToLast; cut < len(whole); cut++ {
		if n, err := has(whole[:cut]); n != 2 || err != nil {
			t.Fatalf("cut at %d of %d: %d services, %v", cut, len(whole), n, err)
		}
	}
	zeros := append(bytes.Clone(whole), make([]byte, 100)...)
	if n, err := has(zeros); n != 3 || err != nil {
		t.Errorf("with zeros behind it: %d services, %v", n, err)
	}
	if n, err := has(whole); n != 3 || err != nil {
		t.Errorf("whole: %d services, %v", n, err)
	}
	damaged := bytes.Replace(whole, []byte("s1"), []byte("sx"), 1)
	if n, err := has(damaged); err == nil || !strings.Contains(err.Error(), "damaged in line 3") {
		t.Errorf("damaged: %d services, %v", n, err)
	}
	for _, other := range []string{"", "x", "{}\n", strings.Repeat("x", 1000) + "\n"} {
		if n, err := has([]byte(other)); err == nil || !strings.Contains(err.Error(), "stateFile: ") {
			t.Errorf("%q: %d services, %v", other, n, err)
		}
	}
}

// TestFaultsOfTheDisk: a change that cannot be written down is answered so; once it can be everything is kept again.
func TestFaultsOfTheDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	var broken atomic.Pointer[string]
	files := faulty.Files{Files: disk.OS, Fail: func(operation, _ string) error {
		if b := broken.Load(); b != nil && *b == operation {
			return syscall.ENOSPC
		}
		return nil
	}}
	s, err := open(t, files, file)
	if err != nil {
		t.Fatal(err)
	}
	w := run(t, s, api.Options{Address: local})
	for i, operation := range []string{"write", "sync", "create", "rename", "edit", "chmod"} {
		broken.Store(&operation)
		path := fmt.Sprint("/v1/services/n/s", i)
		got := w.do("PUT", path, `{}`)
		if more := operation == "write" || operation == "sync"; more {
			w.want(http.StatusInternalServerError, "PUT", path, `{"port": 1}`, "cannot be written down")
			if got.status != http.StatusInternalServerError {
				t.Errorf("%s: %d %s", operation, got.status, got.body)
			}
		}
		if _, there := w.sink.content()[fmt.Sprintf("s%d.n.svc.cluster.local", i)]; !there {
			t.Errorf("%s: what was put is not in force", operation)
		}
		broken.Store(nil)
		w.want(http.StatusOK, "PUT", path, `{"port": 2}`)
	}
	again, err := open(t, disk.OS, file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if v, ok := again.Service("n", fmt.Sprint("s", i)); !ok || v.Port != 2 {
			t.Errorf("s%d is %+v, %t", i, v, ok)
		}
	}
	nowhere := "create"
	broken.Store(&nowhere)
	if _, err := open(t, files, filepath.Join(t.TempDir(), "other")); err == nil {
		t.Error("a folder that cannot be written to is taken")
	}
}

// TestStateStaysSmall: the file does not grow with changes.
func TestStateStaysSmall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, err := open(t, disk.OS, file)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.Repeat("x", 60)
	all := make(api.Instances, 500)
	for i := range 40 { // of 50 KB
		for n := range all {
			all[n] = api.Instance{ID: fmt.Sprint(n), Addresses: []string{"10.0.0.1"}, Port: uint32(i + 1), Network: host}
		}
		if _, err := s.PutService(api.Service{Namespace: "n", Name: "a", Instances: all}, api.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 3<<19 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	again, err := open(t, disk.OS, file)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := again.Service("n", "a"); !ok || v.Instances[0].Port != 40 {
		t.Errorf("%+v", v)
	}
}
