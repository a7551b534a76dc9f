package walk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairway/build/envoybin"
	"fairway/test/rig"
)

// asApplication makes the test binary be an application that answers with the variable's value.
const asApplication = "FAIRWAY_TEST_AS_APPLICATION"

var (
	discovery = rig.Program{Name: "pilot-discovery"}
	agent     = rig.Program{Name: "pilot-agent"}
)

func TestMain(m *testing.M) {
	if name := os.Getenv(asApplication); name != "" {
		application(name)
		return
	}
	os.Exit(m.Run())
}

func application(name string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := http.Server{
		Addr: "127.0.0.1:" + os.Getenv("PORT"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/end" {
				os.Exit(7)
			}
			_, _ = io.WriteString(w, name)
		}),
	}
	go func() { <-ctx.Done(); server.Close() }()
	_ = server.ListenAndServe()
}

// mesh is a control plane of one user, and where it is.
type mesh struct {
	dir, rules, folder string
	plane              *rig.Process
}

func (m *mesh) start(t *testing.T) {
	t.Helper()
	m.plane = rig.Launch(t, rig.Command{
		Name: "dev", Path: discovery.Path(t), Dir: m.dir, Args: []string{"dev", "--configDir", m.rules},
		Env: []string{"FAIRWAY_DEV=" + m.folder},
	})
	awaitLog(t, m.plane, "Ctrl-C ends it")
}

// run starts a workload, and waits until it is in the mesh.
func (m *mesh) run(t *testing.T, says string, args ...string) *rig.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	envoy, err := envoybin.Obtain(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	p := rig.Launch(t, rig.Command{
		Name: says, Path: agent.Path(t), Dir: m.dir, Args: append(append([]string{"run", "--envoy", envoy}, args...), "--", self),
		Env: []string{"FAIRWAY_DEV=" + m.folder, asApplication + "=" + says},
	})
	awaitLog(t, p, "takes requests")
	return p
}

func awaitLog(t *testing.T, p *rig.Process, word string) {
	t.Helper()
	rig.Eventually(t, func() error {
		p.Running(t)
		if strings.Contains(p.Log.String(), word) {
			return nil
		}
		return fmt.Errorf("it has not printed %q", word)
	})
}

var proxyOf = regexp.MustCompile(`HTTP_PROXY=(http://[0-9.:]+)`)

// load asks for reviews through the proxy of a workload, until it is stopped.
type load struct {
	client http.Client
	mu     sync.Mutex
	counts map[string]int
	failed []string
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newLoad(t *testing.T, from *rig.Process) *load {
	t.Helper()
	at := proxyOf.FindStringSubmatch(from.Log.String())
	if at == nil {
		t.Fatalf("no proxy: %s", from.Log)
	}
	proxy, err := url.Parse(at[1])
	if err != nil {
		t.Fatal(err)
	}
	l := &load{
		client: http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}, Timeout: 10 * time.Second}, counts: map[string]int{},
	}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for range 4 {
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.count(l.ask("/"))
			}
		})
	}
	t.Cleanup(func() { stop(); l.done.Wait() })
	return l
}

func (l *load) ask(path string) (string, error) {
	answer, err := l.client.Get("http://reviews" + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

func (l *load) count(said string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = append(l.failed, err.Error())
	}
	l.counts[said]++
}

// answered waits until an instance has answered again.
func (l *load) answered(t *testing.T, says string) {
	t.Helper()
	l.mu.Lock()
	before := l.counts[says]
	l.mu.Unlock()
	rig.Eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.counts[says] > before {
			return nil
		}
		return fmt.Errorf("%s does not answer: %v", says, l.counts)
	})
}

// lostNone fails if a request failed.
func (l *load) lostNone(t *testing.T, what string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		t.Fatalf("%s: %d of %v requests failed, first %s", what, len(l.failed), l.counts, l.failed[0])
	}
}

// TestRun: workloads come, go, and end, and the control plane is killed and started again, under load, and no request fails.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	m := &mesh{dir: dir, rules: filepath.Join(dir, "rules"), folder: filepath.Join(dir, "dev")}
	if err := os.Mkdir(m.rules, 0o755); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	web := m.run(t, "web", "--name", "web")
	one := m.run(t, "one", "--name", "reviews", "--label", "version=v1")
	m.run(t, "two", "--name", "reviews", "--label", "version=v2")
	l := newLoad(t, web)
	l.answered(t, "one")
	l.answered(t, "two")

	one.Signal(syscall.SIGINT)
	if code := one.Exit(t); code != 0 {
		t.Errorf("after Ctrl-C: code %d", code)
	}
	l.lostNone(t, "Ctrl-C of an instance")
	three := m.run(t, "three", "--name", "reviews", "--label", "version=v1")
	l.answered(t, "three")
	l.lostNone(t, "a new instance")

	m.plane.Kill()
	awaitLog(t, three, "the control plane has ended")
	l.answered(t, "two")
	m.start(t)
	for _, p := range []*rig.Process{web, three} {
		awaitLog(t, p, "has joined again")
	}
	l.answered(t, "two")
	l.answered(t, "three")
	l.lostNone(t, "a restart of the control plane")

	l.stop()
	l.done.Wait()
	rig.Write(t, m.rules, "teapot.yaml", []byte(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - match: [{uri: {prefix: /end}}]
    route: [{destination: {host: reviews}}]
    retries: {attempts: 0}
  - directResponse: {status: 418}
`))
	rig.Eventually(t, func() error {
		if _, err := l.ask("/"); err == nil || !strings.Contains(err.Error(), "418") {
			return fmt.Errorf("the rule has no effect: %w", err)
		}
		return nil
	})
	if _, err := l.ask("/end"); err == nil {
		t.Error("an application that ended has answered")
	}
	rig.Eventually(t, func() error {
		select {
		case <-three.Exited:
			return nil
		default:
			_, err := l.ask("/end") // one of the two instances ends
			return fmt.Errorf("the instance has not ended: %w", err)
		}
	})
	if code := three.Exit(t); code != 7 || !strings.Contains(three.Log.String(), "has ended with code 7: reviews-3 leaves the mesh") {
		t.Errorf("code %d: %s", code, three.Log)
	}
	m.plane.Signal(syscall.SIGINT)
	if code := m.plane.Exit(t); code != 0 {
		t.Errorf("the control plane after Ctrl-C: code %d", code)
	}
}
