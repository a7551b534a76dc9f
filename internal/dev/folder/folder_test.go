package folder_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/dev/folder"
)

// TestOnlyTheOwner: nothing is read from, or opened in, a folder that another user could have made or can change.
func TestOnlyTheOwner(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{open: "is open to other users (mode 755); close it with chmod 700", link: "is not a folder"} {
		f := folder.Folder(path)
		if _, _, err := f.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open of %s: %v, want %q", path, err, want)
		}
		if _, err := f.Plane(); err == nil || errors.Is(err, folder.ErrNone) {
			t.Errorf("Plane of %s: %v", path, err)
		}
	}
}

func TestOneControlPlane(t *testing.T) {
	f := folder.Folder(filepath.Join(t.TempDir(), "dev"))
	if _, err := f.Join(t.Context(), folder.Workload{Name: "web"}); !errors.Is(err, folder.ErrNone) {
		t.Fatalf("without a control plane: %v", err)
	}
	listener, release, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	want := folder.Plane{PID: 7, XDS: "127.0.0.1:1", Pages: "127.0.0.1:2", Rules: "/shop"}
	if err := f.Announce(want); err != nil {
		t.Fatal(err)
	}
	if got, running := f.Running(t.Context()); got != want || !running {
		t.Fatalf("Running = %+v, %v", got, running)
	}
	if _, _, err := f.Open(); err == nil || !strings.Contains(err.Error(), "process 7, rules of /shop") {
		t.Fatalf("a second control plane: %v", err)
	}
	listener.Close()
	release()
	if _, running := f.Running(t.Context()); running {
		t.Fatal("it runs after its end")
	}
	again, release, err := f.Open()
	if err != nil {
		t.Fatalf("the next control plane: %v", err)
	}
	release()
	again.Close()
}

// TestMembers: a member leaves when it is closed, and learns that the control plane has ended.
func TestMembers(t *testing.T) {
	f := folder.Folder(filepath.Join(t.TempDir(), "dev"))
	listener, release, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := f.Announce(folder.Plane{}); err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{}, 2)
	stop := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked folder.Workload
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &asked); err != nil || asked.Name == "bad" {
			http.Error(w, "no place for bad", http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(folder.Welcome{Place: folder.Place{Workload: asked.Name + "-1"}, Token: "t"})
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-stop:
		}
		left <- struct{}{}
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if _, err := f.Join(t.Context(), folder.Workload{Name: "bad"}); err == nil || err.Error() != "no place for bad" {
		t.Fatalf("a refusal: %v", err)
	}
	first, err := f.Join(t.Context(), folder.Workload{Name: "web"})
	if err != nil || first.Workload != "web-1" || first.Token != "t" {
		t.Fatalf("Join = %+v, %v", first, err)
	}
	first.Close()
	await(t, left, "the member has left")
	second, err := f.Join(t.Context(), folder.Workload{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	await(t, second.Gone(), "the control plane has ended")
}

func await[T any](t *testing.T, c <-chan T, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatalf("not within 10 s: %s", what)
	}
}
