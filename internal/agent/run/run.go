// Package run is pilot-agent run: an application with an Envoy beside it, in the mesh of pilot-discovery dev. Nothing is intercepted, and
// nothing needs root: the Envoy listens on an address of loopback that is the workload's own, and is the application's HTTP proxy.
package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"fairway/internal/agent/proxy"
	"fairway/internal/agent/settings"
	"fairway/internal/dev/folder"
	"fairway/internal/identity/safefile"
	"fairway/internal/levels"
)

// Options say what runs.
type Options struct {
	Workload folder.Workload
	Command  []string // the application; empty: a gateway
	Envoy    string   // path, or a name to look up in PATH
	Folder   folder.Folder
	Levels   *levels.Levels // of the agent's own log
	// Stdout and Stderr are the application's; what the agent says goes to the latter.
	Stdout, Stderr io.Writer
}

// Run joins the mesh, starts Envoy and, once that is ready, the application, and ends when either has ended. SIGTERM and SIGINT end both:
// the workload leaves the load assignments of others, requests end, then the application is asked to end. A second signal ends it at once.
//
// It returns the application's exit code; that of a gateway is 0. The errors are those of package proxy's Run.
func Run(ctx context.Context, o Options, signals <-chan os.Signal) (code int, err error) {
	m, err := join(ctx, o)
	if err != nil {
		return 2, err
	}
	r := &run{o: o, log: o.Levels.Log(o.Stderr, false), toProxy: make(chan os.Signal, 4)}
	r.place = m.Place
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	left := make(chan struct{})
	go func() { defer close(left); r.stay(ctx, m) }()
	defer func() { stop(); <-left }()
	options, err := r.settings(m.Welcome)
	if err != nil {
		return 2, err
	}
	ready := make(chan struct{})
	options.Ready = func() { close(ready) }
	var once sync.Once
	options.Reported = func(healthy bool) {
		if healthy {
			once.Do(func() { r.say("%s takes requests", r.place.Workload) })
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- proxy.Run(ctx, options, r.toProxy) }()
	return r.supervise(ctx, ready, ended, signals, stop)
}

type run struct {
	o       Options
	log     *slog.Logger
	place   folder.Place
	toProxy chan os.Signal
}

func join(ctx context.Context, o Options) (*folder.Member, error) {
	m, err := o.Folder.Join(ctx, o.Workload)
	if errors.Is(err, folder.ErrNone) {
		return nil, settings.Usage("%w here: start it in another terminal, in the folder of your rules, or name its folder with $%s",
			err, folder.Variable)
	}
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	return m, nil
}

// stay keeps the workload in the mesh until ctx ends: when the control plane ends, it joins the next one, at the same place. Its Envoy goes
// on meanwhile with the configuration that it has.
func (r *run) stay(ctx context.Context, m *folder.Member) {
	defer func() { m.Close() }()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.Gone():
		case <-ctx.Done():
			return
		}
		r.say("the control plane has ended; %s goes on with what it has, and joins the next one", r.place.Workload)
		again := r.o.Workload
		again.Was = &r.place
		for joined := false; !joined; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			next, err := r.o.Folder.Join(ctx, again)
			switch {
			case errors.Is(err, folder.ErrNone):
			case err != nil:
				r.log.Warn("the workload cannot join again", "error", err)
			case next.Place != r.place:
				r.say("the next control plane has given the place of %s to another workload: run it again", r.place.Workload)
				next.Close()
				return
			default:
				m, joined = next, true
				r.say("%s has joined again", r.place.Workload)
			}
		}
	}
}

// settings returns how the proxy runs, and writes the files that prove who it is.
func (r *run) settings(w folder.Welcome) (settings.Options, error) {
	dir := r.o.Folder.Agent(w.Workload)
	token, roots := filepath.Join(dir, "join-token"), filepath.Join(dir, "roots.pem")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return settings.Options{}, err
	}
	err := errors.Join(safefile.Write(token, []byte(w.Token), 0o600), safefile.Write(roots, []byte(w.Roots), 0o600))
	if err != nil {
		return settings.Options{}, err
	}
	admin, err := folder.FreePort("127.0.0.1", 0)
	if err != nil {
		return settings.Options{}, err
	}
	if err := r.o.Folder.AnnounceAdmin(w.Workload, fmt.Sprintf("127.0.0.1:%d", admin)); err != nil {
		return settings.Options{}, err
	}
	labels, err := json.Marshal(w.Labels)
	if err != nil {
		return settings.Options{}, err
	}
	role := "sidecar"
	vars := map[string]string{
		"CA_ADDR": w.XDS, "CA_ROOT_CA": roots, "JWT_TOKEN_PATH": token, "SERVICE_ACCOUNT": r.o.Workload.Name,
		"POD_NAME": w.Workload, "POD_NAMESPACE": w.Namespace, "INSTANCE_IP": w.Address,
		"ISTIO_META_INTERCEPTION_MODE": "NONE", "ISTIO_METAJSON_LABELS": string(labels), "MINIMUM_DRAIN_DURATION": "500ms",
		"ISTIO_META_AUTO_REGISTER_GROUP": w.Workload,
	}
	if r.o.Workload.Gateway {
		role = "router"
		delete(vars, "ISTIO_META_AUTO_REGISTER_GROUP")
	} else {
		vars["PROXY_CONFIG"] = fmt.Sprintf(
			"readinessProbe: {tcpSocket: {host: 127.0.0.1, port: %d}, periodSeconds: 1}", r.o.Workload.Port)
	}
	host, err := os.Hostname()
	if err != nil {
		return settings.Options{}, err
	}
	out, err := settings.Resolve(settings.Flags{
		Type: role, DiscoveryAddress: w.XDS, Envoy: r.o.Envoy, ConfigPath: dir, ProxyLogLevel: "warning", ComponentLogLevel: "misc:error",
		AdminPort: admin, StatusPort: -1, ReadyPort: 0, PrometheusPort: -1, Concurrency: 1,
		NoHotRestart: true, BaseID: -1, RestartBudget: -1, RestartTimeout: time.Minute,
	}, settings.Environment{Vars: vars, Hostname: host})
	if err != nil {
		return out, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "envoy.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return out, err
	}
	out.Stdout, out.Stderr, out.Log, out.Levels = log, log, r.log, r.o.Levels
	return out, nil
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.o.Stderr, "pilot-agent: "+format+"\n", args...)
}

// supervise runs the application beside the proxy.
func (r *run) supervise(
	ctx context.Context, ready <-chan struct{}, ended <-chan error, signals <-chan os.Signal, stop func(),
) (code int, err error) {
	var app *application
	var over <-chan int
	stopping := false
	for {
		select {
		case <-ready:
			ready = nil
			if r.welcome(); len(r.o.Command) == 0 || stopping {
				continue
			}
			if app, err = start(r.o, r.place); err != nil {
				r.toProxy <- syscall.SIGTERM
				return 2, errors.Join(&settings.UsageError{Err: err}, <-ended)
			}
			over = app.ended
		case code = <-over:
			over, app = nil, nil
			if !stopping {
				r.say("%s has ended with code %d: %s leaves the mesh", r.o.Command[0], code, r.place.Workload)
				stopping = true
				r.toProxy <- syscall.SIGTERM
			}
		case err := <-ended: // after a stop that was asked for, all requests have ended
			if app != nil {
				code = cmp.Or(app.end(), code)
			}
			if err != nil {
				r.say("Envoy has ended; its log is %s", filepath.Join(r.o.Folder.Agent(r.place.Workload), "envoy.log"))
			}
			return code, err
		case <-signals:
			if stopping {
				stop() // the proxy ends at once
				continue
			}
			stopping = true
			r.toProxy <- syscall.SIGTERM
		}
	}
}

func (r *run) welcome() {
	if r.o.Workload.Gateway {
		r.say("%s is ready: a gateway, labelled istio: ingressgateway", r.place.Workload)
		return
	}
	r.say("%s is in the mesh as http://%s; its application is started with PORT=%d and HTTP_PROXY=%s", r.place.Workload,
		r.o.Workload.Name, r.o.Workload.Port, httpProxy(r.place))
}

func httpProxy(p folder.Place) string {
	return "http://" + net.JoinHostPort(p.Address, strconv.Itoa(int(p.Outbound)))
}
