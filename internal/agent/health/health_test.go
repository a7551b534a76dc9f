package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	networking "istio.io/api/networking/v1alpha3"
)

// probe makes a probe that asks a function.
func probe(ask func(context.Context) error) *Probe {
	return &Probe{Delay: 5 * time.Second, Timeout: time.Second, Period: 10 * time.Second, Successes: 2, Failures: 3, what: "test", ask: ask}
}

// said is one call of Report.
type said struct {
	after time.Duration
	ok    bool
	why   string
}

// play runs a checker with the listed outcomes (+ passes, all others fail), and returns its reports with their times. Time is fake.
func play(t *testing.T, outcomes string, leave time.Duration, proxy func(context.Context) []string) (out []said) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		p := probe(func(context.Context) error {
			n++
			if n > len(outcomes) || outcomes[n-1] == '+' {
				return nil
			}
			return fmt.Errorf("check %d", n)
		})
		c := New(
			Options{
				Probe:  p,
				Proxy:  proxy,
				Log:    slog.New(slog.DiscardHandler),
				Report: func(ok bool, why string) { out = append(out, said{time.Since(began), ok, why}) },
			},
		)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(len(outcomes))*10*time.Second)
		defer cancel()
		if leave > 0 {
			time.AfterFunc(leave, func() { c.ReportStopping("leaving"); c.ReportStopping("again") })
		}
		c.Run(ctx)
	})
	return out
}

// TestTransitionsAreSaid: only when as many checks in a row as the probe demands say otherwise than the last word.
func TestTransitionsAreSaid(t *testing.T) {
	at := func(n int) time.Duration { return 5*time.Second + time.Duration(n-1)*10*time.Second }
	for outcomes, want := range map[string][]said{
		"++++++":       {{at(2), true, ""}},
		"+-+-+-":       nil,
		"---+-++":      {{at(3), false, "check 3"}, {at(7), true, ""}},
		"++--+---++++": {{at(2), true, ""}, {at(8), false, "check 8"}, {at(10), true, ""}},
		"-+--+":        nil,
	} {
		if got := play(t, outcomes, 0, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: said %v, want %v", outcomes, got, want)
		}
	}
}

// TestLeaving: a healthy application is taken out at once, whatever its checks say; of one that was never healthy there is nothing to say.
func TestLeaving(t *testing.T) {
	if got, want := play(t, "++++++", 17*time.Second, nil), []said{
		{15 * time.Second, true, ""},
		{17 * time.Second, false, "leaving"},
	}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("said %v, want %v", got, want)
	}
	if got := play(t, "+-+-", 12*time.Second, nil); len(got) != 0 {
		t.Errorf("said %v, want nothing", got)
	}
}

// TestProxyCounts: an application behind a proxy that takes no traffic is not healthy.
func TestProxyCounts(t *testing.T) {
	got := play(t, "++++++", 0, func(context.Context) []string { return []string{"no listeners"} })
	if len(got) != 1 || got[0].ok || got[0].why != "the proxy is not ready: no listeners" {
		t.Errorf("said %v", got)
	}
}

// TestProxyMayTakeItsTime: of one that is ready soon after the start it was never said that it fails; of one that is
// not it is, and of one that was ready before.
func TestProxyMayTakeItsTime(t *testing.T) {
	for _, c := range []struct {
		ready func(after time.Duration) bool
		want  []said
	}{
		{func(after time.Duration) bool { return after >= settling }, []said{{15 * time.Second, true, ""}}},
		{
			func(after time.Duration) bool { return after > 2*settling },
			[]said{{15 * time.Second, false, "the proxy is not ready: x"}, {25 * time.Second, true, ""}},
		},
		{
			func(after time.Duration) bool { return after < settling },
			[]said{{5 * time.Second, true, ""}, {15 * time.Second, false, "the proxy is not ready: x"}},
		},
	} {
		var got []said
		synctest.Test(t, func(t *testing.T) {
			began, p := time.Now(), probe(func(context.Context) error { return nil })
			p.Successes, p.Failures = 1, 1
			ready := func(context.Context) []string {
				if c.ready(time.Since(began)) {
					return nil
				}
				return []string{"x"}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			New(
				Options{
					Probe:  p,
					Proxy:  ready,
					Log:    slog.New(slog.DiscardHandler),
					Report: func(ok bool, why string) { got = append(got, said{time.Since(began), ok, why}) },
				},
			).Run(ctx)
		})
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("said %v, want %v", got, c.want)
		}
	}
}

// TestSlowAnswers: a check that takes too long fails, and the next one is not left out.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probe(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		var last string
		c := New(Options{Probe: p, Log: slog.New(slog.DiscardHandler), Report: func(_ bool, why string) { last = why }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c.Run(ctx)
		if s := c.Status(); s.State != unhealthy || s.Checks != 6 || s.Failures != 6 || last != "test did not answer within 1s" {
			t.Errorf("%+v, said %q", s, last)
		}
	})
}

func TestDefaults(t *testing.T) {
	if p, err := Parse(nil, "x"); p != nil || err != nil {
		t.Errorf("no probe: %v, %v", p, err)
	}
	p, err := Parse(
		&networking.ReadinessProbe{
			HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: 80}},
		},
		"10.0.0.1",
	)
	if err != nil || p.Delay != 0 || p.Timeout != time.Second || p.Period != 10*time.Second || p.Successes != 1 || p.Failures != 3 ||
		p.String() != "tcpSocket localhost:80" {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = Parse(&networking.ReadinessProbe{
		InitialDelaySeconds: 1,
		TimeoutSeconds:      2,
		PeriodSeconds:       3,
		SuccessThreshold:    4,
		FailureThreshold:    5,
		HealthCheckMethod: &networking.ReadinessProbe_HttpGet{
			HttpGet: &networking.HTTPHealthCheckConfig{Port: 80, Path: "a?b=c", Scheme: "HTTPS"},
		},
	}, "fd00::1")
	if err != nil || p.Delay != time.Second || p.Timeout != 2*time.Second || p.Period != 3*time.Second || p.Successes != 4 ||
		p.Failures != 5 ||
		p.String() != "httpGet https://[fd00::1]:80/a?b=c" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestMistakes(t *testing.T) {
	for want, spec := range map[string]*networking.ReadinessProbe{
		"set one of httpGet": {},
		"httpGet.port: 0":    {HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{}}},
		`httpGet.scheme: "ftp"`: {
			HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{Port: 1, Scheme: "ftp"}},
		},
		"tcpSocket.port: 70000": {
			HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: 70000}},
		},
		"exec.command: missing":      {HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{}}},
		"grpc.port: 0":               {HealthCheckMethod: &networking.ReadinessProbe_Grpc{Grpc: &networking.GrpcHealthCheckConfig{}}},
		"periodSeconds: -1":          {PeriodSeconds: -1},
		"timeoutSeconds: -2":         {TimeoutSeconds: -2},
		"failureThreshold: -3; want": {FailureThreshold: -3},
	} {
		if _, err := Parse(spec, "localhost"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", spec, err, want)
		}
	}
}

// ask runs one check of a spec against an application on this machine.
func ask(t *testing.T, spec *networking.ReadinessProbe) error {
	t.Helper()
	p, err := Parse(spec, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return p.ask(ctx)
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			if r.Host != "shop.example" || strings.Join(r.Header["X-A"], ",") != "1,2" || r.URL.RawQuery != "q=1" {
				http.Error(w, r.Host, http.StatusTeapot)
			}
		case "/moved":
			http.Redirect(w, r, "/ok?q=1", http.StatusFound)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/as it is/":
			if r.RequestURI != "/as%20it%20is%2F?q=%20" {
				http.Error(w, r.RequestURI, http.StatusTeapot)
			}
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		default:
			http.Error(w, "no database", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	port := uint32(server.Listener.Addr().(*net.TCPAddr).Port)
	get := func(path string) error {
		return ask(
			t,
			&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{
				Port: port,
				Path: path,
				HttpHeaders: []*networking.HTTPHeader{
					{Name: "Host", Value: "shop.example"},
					{Name: "X-A", Value: "1"},
					{Name: "X-A", Value: "2"},
				},
			}}},
		)
	}
	expect(t, get("/ok?q=1"), "")
	expect(t, get("/away"), "") // where it leads is nothing of this application
	expect(t, get("/circle"), "redirects more than 10 times")
	expect(t, get("/as%20it%20is%2F?q=%20"), "")
	expect(t, get("/%zz"), "answers 503") // no escape: it is escaped
	expect(t, get("/bad"), "answers 503 Service Unavailable: no database")
	server.Close()
	expect(t, get("/ok?q=1"), "refused")
}

func TestTCPAndGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state, server := grpchealth.NewServer(), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, state)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	port := uint32(l.Addr().(*net.TCPAddr).Port)
	tcp := &networking.ReadinessProbe{
		HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Host: "127.0.0.1", Port: port}},
	}
	call := &networking.ReadinessProbe{
		HealthCheckMethod: &networking.ReadinessProbe_Grpc{Grpc: &networking.GrpcHealthCheckConfig{Port: port, Service: "shop"}},
	}
	expect(t, ask(t, tcp), "")
	expect(t, ask(t, call), "unknown service")
	state.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	expect(t, ask(t, call), "the application says NOT_SERVING")
	state.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
	expect(t, ask(t, call), "")
	server.Stop()
	expect(t, ask(t, tcp), "refused")
}

func TestExec(t *testing.T) {
	command := func(words ...string) error {
		return ask(
			t,
			&networking.ReadinessProbe{
				HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{Command: words}},
			},
		)
	}
	expect(t, command("true"), "")
	expect(t, command("sh", "-c", "echo no disk >&2; exit 3"), "sh: exit status 3: no disk")
	expect(t, command("/no/such/program"), "no such file")

	// A command that does not end in time is killed, with all that it started.
	mark := filepath.Join(t.TempDir(), "pid")
	p, err := Parse(&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{
		Command: []string{"sh", "-c", "sleep 600 & echo $! >" + mark + ".new; mv " + mark + ".new " + mark + "; wait"},
	}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(mark); err == nil || !errors.Is(err, os.ErrNotExist) {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	expect(t, p.ask(ctx), "did not end in time")
	raw, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(raw)) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("what the command started lives on: %s", state)
		}
	}
}

// TestAnotherProbe: checks of a replaced probe do not count any more, not even the one under way; the state stays until the new
// checks change it.
func TestAnotherProbe(t *testing.T) {
	var out []said
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := New(
			Options{
				Log:    slog.New(slog.DiscardHandler),
				Report: func(ok bool, why string) { out = append(out, said{time.Since(began), ok, why}) },
				Probe:  probe(func(context.Context) error { return nil }),
			},
		)
		failing := probe(func(context.Context) error { return errors.New("no") })
		failing.what, failing.Failures, failing.Period = "other", 2, time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(20*time.Second, func() { c.Replace(probe(nil)) }) // as the one before: nil is never asked
		time.AfterFunc(30*time.Second, func() { c.Replace(failing) })
		c.Run(ctx)
		if s := c.Status(); s.Probe != "other" || s.State != unhealthy {
			t.Errorf("%+v", s)
		}
	})
	if want := []said{{15 * time.Second, true, ""}, {31 * time.Second, false, "no"}}; fmt.Sprint(out) != fmt.Sprint(want) {
		t.Errorf("said %v, want %v", out, want)
	}
}
