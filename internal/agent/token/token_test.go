package token

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestKept: the next agent of a folder knows the token that the Envoy left behind was started with; after a clean end another one is made.
func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "proxy")
	first, folder, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	next, later, err := Open(dir)
	if err != nil || next != first {
		t.Fatalf("the next agent has another token, %v", err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, File): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	later.Close()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("an agent that found the folder removes it: %v", err)
	}
	if third, folder, err := Open(dir); err != nil || third == first {
		t.Errorf("the token of a proxy that has ended is taken again, %v", err)
	} else {
		folder.Close()
	}
	folder.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left behind: %v", err)
	}
	if first.Derive("a") == first.Derive("b") || len(first.Derive("a")) != 32 || strings.Contains(string(first), first.Derive("a")) {
		t.Error("what is derived has no secret of its own")
	}
}

// TestChosenByOthers: a token that somebody else could have written, or read, is not taken.
func TestChosenByOthers(t *testing.T) {
	good := strings.Repeat("ab", 32)
	for name, make := range map[string]func(path string) error{
		"readable by others": func(path string) error { return os.WriteFile(path, []byte(good), 0o644) },
		"no token":           func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"too long":           func(path string) error { return os.WriteFile(path, []byte(good+good), 0o600) },
		"a pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link": func(path string) error {
			if err := os.WriteFile(path+".real", []byte(good), 0o600); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		},
		"another user's": func(path string) error {
			if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := make(filepath.Join(dir, File)); err != nil {
				t.Skip(err)
			}
			if got, _, err := Open(dir); err != nil || got == Token(good) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(good+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(filepath.Join(dir, File)); err != nil || got != Token(good) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAdmits(t *testing.T) {
	for shown, want := range map[string]bool{"secret": true, "": false, "secre": false, "secret1": false, "Secret": false} {
		if Token("secret").Admits(shown) != want {
			t.Errorf("%q", shown)
		}
	}
	if Token("").Admits("") {
		t.Error("no token admits somebody")
	}
}

// TestServer: who does not show the token, or shows others beside it, is unauthenticated.
func TestServer(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(Token("secret").Options()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(l)
	defer server.Stop()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	for _, c := range []struct {
		shown []string
		want  codes.Code
	}{
		{nil, codes.Unauthenticated},
		{[]string{"x"}, codes.Unauthenticated},
		{[]string{"secret", "x"}, codes.Unauthenticated},
		{[]string{"secret"}, codes.OK},
	} {
		ctx := context.Background()
		for _, s := range c.shown {
			ctx = metadata.AppendToOutgoingContext(ctx, Header, s)
		}
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != c.want {
			t.Errorf("unary, %q: %v", c.shown, err)
		}
		watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if status.Code(err) != c.want {
			t.Errorf("stream, %q: %v", c.shown, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "\n"))
	f.Add([]byte(strings.Repeat("AB", 32)))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parse(text)
		if err == nil && (len(got) != length || !got.Admits(string(got)) || strings.TrimSuffix(string(text), "\n") != string(got)) {
			t.Fatalf("%q is taken for %q", text, got)
		}
	})
}
