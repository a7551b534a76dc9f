package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/build/envoybin"
	"fairway/internal/agent/settings"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEnvoy is a shell script in Envoy's place: it accepts every bootstrap, then runs body with $CONFIG set.
func fakeEnvoy(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy")
	script := "#!/bin/sh\ncase \"$*\" in *'--mode validate'*) exit 0;; *--hot-restart-version*) echo 11.104; exit 0;; " +
		"esac\nCONFIG=$2\necho args \"$@\"\n" + body + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func testOptions(t *testing.T, envoy string) (settings.Options, *rig.Log) {
	t.Helper()
	out := &rig.Log{}
	return settings.Options{
		Bootstrap: bootstrap.Params{
			Node: bootstrap.Node{
				Type:      mesh.Sidecar,
				IP:        "127.0.0.2",
				Name:      "a",
				Namespace: "b",
				Domain:    "b.svc.cluster.local",
				Cluster:   "a.b",
			},
			Discovery: bootstrap.HostPort{Host: "127.0.0.1", Port: 1},
			Admin:     bootstrap.HostPort{Host: "127.0.0.1", Port: rig.FreePort(t)},
		},
		Restarts: settings.Restarts{Budget: -1}, Shutdown: settings.Shutdown{Kill: 20 * time.Second},
		Envoy: envoy, ConfigDir: filepath.Join(t.TempDir(), "proxy"),
		Stdout: out, Stderr: out, Log: slog.New(slog.NewTextHandler(out, nil)),
	}, out
}

// background runs the agent; the returned stop asks it to end and gives what Run returned.
func background(t *testing.T, o settings.Options, signals <-chan os.Signal) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- Run(ctx, o, signals) }()
	return func() error { cancel(); return <-result }
}

func TestEnvoysEndIsTheAgents(t *testing.T) {
	for body, want := range map[string]int{"exit 0": 1, "exit 7": 7, "kill -KILL $$": 128 + 9} { // none of them has served
		o, out := testOptions(t, fakeEnvoy(t, "echo to the log >&2; "+body))
		err := Run(t.Context(), o, nil)
		if got := ExitCode(err); got != want {
			t.Errorf("%s: exit code %d, want %d (%v)", body, got, want, err)
		}
		out.Await(t, "to the log")
		if _, kept := os.Stat(filepath.Join(o.ConfigDir, "envoy-rev0.json")); kept != nil {
			t.Errorf("%s: the bootstrap that the log names is gone", body)
		}
	}
}

func TestStopsOnRequest(t *testing.T) {
	o, out := testOptions(t, fakeEnvoy(t, `trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 0.05; done`))
	stop := background(t, o, nil)
	out.Await(t, "up\n")
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	out.Await(t, "got TERM")
	if _, err := os.Stat(o.ConfigDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder made for Envoy is left behind (%v)", err)
	}
}

func TestKillsWhatDoesNotStop(t *testing.T) {
	o, out := testOptions(t, fakeEnvoy(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`))
	o.Shutdown.Kill = 50 * time.Millisecond
	stop := background(t, o, nil)
	out.Await(t, "up\n")
	if got := ExitCode(stop()); got != 128+9 {
		t.Errorf("exit code %d, want 137", got)
	}
}

func TestPassesSignalsOn(t *testing.T) {
	o, out := testOptions(t, fakeEnvoy(t, `trap 'echo reopened' USR1; trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`))
	signals := make(chan os.Signal)
	stop := background(t, o, signals)
	out.Await(t, "up\n")
	signals <- syscall.SIGUSR1
	out.Await(t, "reopened")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestArguments(t *testing.T) {
	id := uint32(7)
	for want, change := range map[string]func(*settings.Options){
		"--disable-hot-restart":          func(*settings.Options) {},
		"--base-id 7 --restart-epoch 0":  func(o *settings.Options) { o.Restarts.Hot, o.Restarts.BaseID = true, &id },
		"--concurrency 2":                func(o *settings.Options) { o.Concurrency = 2 },
		"--component-log-level misc:off": func(o *settings.Options) { o.ComponentLogLevel = "misc:off" },
		"--config-yaml admin: {}":        func(o *settings.Options) { o.Override = "admin: {}" },
		"--drain-time-s 2 --base-id 7 --restart-epoch 0 --parent-shutdown-time-s 3": func(o *settings.Options) {
			o.Restarts = settings.Restarts{Hot: true, BaseID: &id, Drain: 1500 * time.Millisecond, Budget: -1}
		},
		"--log-level warning": func(*settings.Options) {},
	} {
		o, out := testOptions(t, fakeEnvoy(t, "exit 3"))
		change(&o)
		if err := Run(t.Context(), o, nil); ExitCode(err) != 3 {
			t.Error(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
}

func TestMistakesAreSaidBeforeAnythingStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	refuses := filepath.Join(t.TempDir(), "envoy")
	os.WriteFile(refuses, []byte("#!/bin/sh\necho no such field >&2; exit 1\n"), 0o755)
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o644)

	for want, change := range map[string]func(*settings.Options){
		"--envoy":            func(o *settings.Options) { o.Envoy = "/no/such/envoy" },
		"no such field":      func(o *settings.Options) { o.Envoy = refuses },
		"--mode validate -c": func(o *settings.Options) { o.Envoy = refuses },
		"--configPath":       func(o *settings.Options) { o.ConfigDir = filepath.Join(file, "below") },
		"--adminPort":        func(o *settings.Options) { o.Bootstrap.Admin.Port = uint16(taken.Addr().(*net.TCPAddr).Port) },
		"node metadata":      func(o *settings.Options) { o.Bootstrap.Node.Metadata = map[string]any{"X": make(chan int)} },
		"custom bootstrap":   func(o *settings.Options) { o.CustomConfig = "/no/such/bootstrap.json" },
		"choose another port with -": func(o *settings.Options) {
			o.Bootstrap.Prometheus = o.Bootstrap.Admin
			o.Bootstrap.Admin.Port = uint16(taken.Addr().(*net.TCPAddr).Port)
		},
	} {
		o, out := testOptions(t, fakeEnvoy(t, "exit 0"))
		change(&o)
		err := Run(t.Context(), o, nil)
		if ExitCode(err) != 2 || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v (code %d), want code 2 and %q", err, ExitCode(err), want)
		}
		if strings.Contains(out.String(), "args") {
			t.Errorf("%s: Envoy was started", want)
		}
	}
}

// TestRealEnvoy runs the pinned Envoy on a bootstrap with everything in it, until its administration answers, and stops it.
func TestRealEnvoy(t *testing.T) {
	path, err := envoybin.Find()
	if errors.Is(err, envoybin.ErrNotObtained) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	o, out := testOptions(t, path)
	id := uint32(os.Getpid())
	o.Restarts.Hot, o.Restarts.BaseID = true, &id
	o.Override = "stats_flush_interval: 7s"
	o.Bootstrap.Prometheus = bootstrap.HostPort{Host: "127.0.0.1", Port: rig.FreePort(t)}
	o.Bootstrap.Stats = bootstrap.StatsMatcher{Prefixes: []string{"cluster."}, Suffixes: []string{"x"}, Regexps: []string{"a.*"}}
	stop := background(t, o, nil)
	out.Await(t, "envoy started")
	body := awaitAdmin(t, fmt.Sprintf("http://%s/config_dump", o.Bootstrap.Admin))
	for _, want := range []string{"sidecar~127.0.0.2~a.b~b.svc.cluster.local", "DELTA_GRPC", `"stats_flush_interval": "7s"`} {
		if !strings.Contains(body, want) {
			t.Errorf("Envoy's configuration lacks %q", want)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Run = %v\n%s", err, out)
	}
	for _, noise := range []string{"deprecated", "[error]", "no configured limit"} {
		if strings.Contains(out.String(), noise) {
			t.Errorf("Envoy complains of its bootstrap (%s):\n%s", noise, out)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/dev/shm/envoy_shared_memory_%d0", id)); err == nil {
		t.Error("shared memory is left behind")
	}
}

// awaitAdmin asks until Envoy answers; a tick between tries, at most 20 seconds.
func awaitAdmin(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		if resp, err := client.Get(url); err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK {
				return string(body)
			}
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s never answered", url)
		}
	}
}
