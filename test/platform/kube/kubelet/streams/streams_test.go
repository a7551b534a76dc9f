package streams_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"fairway/test/platform/kube/kubelet/journal"
	"fairway/test/platform/kube/kubelet/streams"
)

// node runs programs here, in the one container web/a.
type node struct{ log *journal.Journal }

func (n node) Log(at streams.Place) (*journal.Journal, error) {
	if at != (streams.Place{Namespace: "default", Pod: "web", Container: "a"}) {
		return nil, errors.New("no such container")
	}
	return n.log, nil
}

func (n node) Exec(ctx context.Context, _ streams.Place, args []string, prepare func(*exec.Cmd) error) error {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{}
	if err := prepare(c); err != nil {
		return err
	}
	return c.Run()
}

func (n node) Dial(context.Context, streams.Place, int32) (net.Conn, error) {
	return nil, errors.New("no network")
}

// serve serves a node, and returns where.
func serve(t *testing.T) string {
	t.Helper()
	log, err := journal.Open(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	server := httptest.NewServer(streams.Handler(node{log}))
	t.Cleanup(server.Close)
	out, done, err := log.Begin(uint32(os.Getuid()), uint32(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(out, "one\ntwo\n")
	out.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return server.URL
}

// TestExec: a client of each protocol gets what a program writes, and its exit code, with a terminal and without.
func TestExec(t *testing.T) {
	at := serve(t)
	for _, c := range []struct {
		script, input string
		tty           bool
		want          string
		code          int
	}{
		{"cat; exit 3", "a text", false, "a text", 3},
		{"cat; test -t 1 || echo none", "", false, "none\n", 0},
		{"kill -9 $$", "", false, "", 137},
		{"test -t 0 && test -t 1 && until stty size | grep '24 80'; do :; done; exit 4", "", true, "24 80\r\n", 4},
		{"read line; echo got $line", "word\n", true, "word\r\ngot word\r\n", 0},
	} {
		q := url.Values{"command": {"sh", "-c", c.script}, "input": {"1"}, "output": {"1"}}
		if c.tty {
			q.Set("tty", "1")
		}
		u, err := url.Parse(at + "/exec/default/web/a?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range map[string]func() (remotecommand.Executor, error){
			"SPDY": func() (remotecommand.Executor, error) {
				return remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", u)
			},
			"WebSocket": func() (remotecommand.Executor, error) {
				return remotecommand.NewWebSocketExecutorForProtocols(&rest.Config{}, "GET", u.String(), "v4.channel.k8s.io")
			},
		} {
			if name == "WebSocket" && strings.HasPrefix(c.script, "cat") {
				continue // this version of its protocol cannot end the input
			}
			e, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			options := remotecommand.StreamOptions{Stdin: strings.NewReader(c.input), Stdout: &out, Tty: c.tty}
			if c.tty {
				options.TerminalSizeQueue = sized(make(chan struct{}, 1))
			}
			err = e.StreamWithContext(t.Context(), options)
			var exit utilexec.ExitError
			code := 0
			if errors.As(err, &exit) {
				code = exit.ExitStatus()
			} else if err != nil {
				t.Errorf("%s: %s: %v", name, c.script, err)
			}
			if out.String() != c.want || code != c.code {
				t.Errorf("%s: %s: %q and %d, want %q and %d", name, c.script, &out, code, c.want, c.code)
			}
		}
	}
}

// sized says once that a terminal has 24 lines of 80 columns.
type sized chan struct{}

func (s sized) Next() *remotecommand.TerminalSize {
	select {
	case s <- struct{}{}:
		return &remotecommand.TerminalSize{Width: 80, Height: 24}
	default:
		return nil
	}
}

// TestRequests: each request that cannot be carried out is refused, and says why.
func TestRequests(t *testing.T) {
	at := serve(t)
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"/containerLogs/default/web/a", "one\ntwo\n", http.StatusOK},
		{"/containerLogs/default/web/a?tailLines=1", "two\n", http.StatusOK},
		{"/containerLogs/default/web/a?limitBytes=5", "one\nt", http.StatusOK},
		{"/containerLogs/default/web/a?limitBytes=-1", "limitBytes is no number", http.StatusBadRequest},
		{"/containerLogs/default/web/a?tailLines=x", "tailLines", http.StatusBadRequest},
		{"/containerLogs/default/web/a?sinceSeconds=x", "sinceSeconds", http.StatusBadRequest},
		{"/containerLogs/default/web/a?sinceTime=x", "sinceTime", http.StatusBadRequest},
		{"/containerLogs/default/web/a?follow=x", "follow", http.StatusBadRequest},
		{"/containerLogs/default/web/a?previous=true", "not found", http.StatusBadRequest},
		{"/containerLogs/default/web/b", "no such container", http.StatusNotFound},
		{"/exec/default/web/b?command=true&output=1", "no such container", http.StatusNotFound},
		{"/exec/default/web/a?output=1", "no command is named", http.StatusBadRequest},
		{"/exec/default/web/a?command=true", "at least 1 of stdin, stdout, stderr", http.StatusBadRequest},
		{"/attach/default/web/a", "", http.StatusNotFound},
	} {
		answer, err := http.Get(at + c.path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %q, %v; want %d %q", c.path, answer.StatusCode, body, err, c.code, c.want)
		}
	}
}
