package platform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shown prints rows: a line a service, a slice and a problem.
func shown(s source.Shard, problems []mesh.Problem) string {
	var out strings.Builder
	for _, v := range s.Rows.Services {
		fmt.Fprintf(&out, "%s %s ports %v\n", v.Key, v.Resolution, v.Ports)
	}
	for _, v := range s.Rows.Slices {
		for _, e := range v.Endpoints {
			fmt.Fprintf(&out, "  %s: %s %s labels %q weight %d %s\n", e.ID, e.Address, e.Ports, e.Labels, e.Weight, e.Health)
		}
	}
	for _, p := range problems {
		fmt.Fprintf(&out, "! %s %s %s\n", p.Severity, p.Code, p.Field)
	}
	return out.String()
}

func at(id, address string, port uint32) platform.Instance {
	return platform.Instance{ID: id, Addresses: []string{address}, Port: port}
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		name   string
		naming platform.Naming
		s      platform.Service
		want   string
	}{
		{
			"each port of instances is one", platform.Naming{},
			platform.Service{
				Name: "Web", Protocol: "http", Instances: []platform.Instance{at("b", "10.0.0.2", 81), at("a", "10.0.0.1", 80)},
			},
			"web.service.test default//Web Test/one STATIC ports [http-80:80/HTTP http-81:81/HTTP]\n" +
				"  a: 10.0.0.1 http-80=80 labels \"\" weight 0 HEALTHY\n  b: 10.0.0.2 http-81=81 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"one port that clients address", platform.Naming{Port: 80, Protocol: "grpc", Host: "{name}.{namespace}.svc.cluster.local"},
			platform.Service{Name: "web", Namespace: "shop", Instances: []platform.Instance{
				at("a", "10.0.0.1", 31001), at("b", "::ffff:10.0.0.2", 31002),
			}},
			"web.shop.svc.cluster.local shop/shop/web Test/one STATIC ports [grpc:80/GRPC]\n" +
				"  a: 10.0.0.1 grpc=31001 labels \"\" weight 0 HEALTHY\n  b: 10.0.0.2 grpc=31002 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"metadata goes before the registry's words", platform.Naming{Port: 80},
			platform.Service{
				Name: "web", Meta: map[string]string{"service-port": "9000", "protocol": "tcp"},
				Instances: []platform.Instance{at("a", "10.0.0.1", 1)},
			},
			"web.service.test default//web Test/one STATIC ports [tcp:9000/TCP]\n  a: 10.0.0.1 tcp=1 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"names of ports", platform.Naming{},
			platform.Service{Name: "web", Instances: []platform.Instance{
				{ID: "a", Addresses: []string{"host.example"}, Ports: []platform.Port{{"http", 8080, "http"}, {"https", 8443, "https"}}},
			}},
			"web.service.test default//web Test/one DNS ports [http:8080/HTTP https:8443/HTTPS]\n" +
				"  a: host.example http=8080,https=8443 labels \"\" weight 0 HEALTHY\n",
		},
		{
			"a hostile one", platform.Naming{},
			platform.Service{
				Name: "web", Protocol: "smoke", Meta: map[string]string{"service-port": "70000"}, Instances: []platform.Instance{
					at("a", "10.0.0.1", 80), at("a", "10.0.0.2", 80), at("", "10.0.0.3", 80), at("c", "0.0.0.0", 80),
					at("d", "not a name", 80), at("e", "10.0.0.5", 0), {ID: "f", Port: 80},
					{ID: "g", Addresses: []string{"10.0.0.6"}, Port: 80, Labels: map[string]string{
						"a b": "c", "ok": "x,y", "good": "ü", "bad": "\xff",
					}},
				},
			},
			"web.service.test default//web Test/one STATIC ports [port-80:80/unknown]\n" +
				"  a: 10.0.0.1 port-80=80 labels \"\" weight 0 HEALTHY\n  g: 10.0.0.6 port-80=80 labels \"good=ü\" weight 0 HEALTHY\n" +
				"! error BadPort service-port\n! warning UnknownProtocol protocol\n! warning Duplicate instances\n" +
				"! error BadName instances\n! error BadAddress instances\n! error BadAddress instances\n! error BadPort instances\n" +
				"! error NoAddress instances\n" +
				"! info BadLabel instances\n",
		},
		{
			"names and IPs", platform.Naming{},
			platform.Service{Name: "web", Instances: []platform.Instance{at("a", "a.example", 80), at("b", "10.0.0.1", 80)}},
			"web.service.test default//web Test/one STATIC ports [port-80:80/unknown]\n" +
				"  b: 10.0.0.1 port-80=80 labels \"\" weight 0 HEALTHY\n! error AddressForm instances\n",
		},
		{"no host", platform.Naming{}, platform.Service{Name: "ünï"}, "! error BadHost host\n"},
		{"no name", platform.Naming{}, platform.Service{Name: "\xff"}, "! error BadName name\n"},
		{"no namespace", platform.Naming{}, platform.Service{Name: "a", Namespace: "x.y"}, "! error BadName namespace\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.naming.Validate(); err != nil {
				t.Fatal(err)
			}
			got := shown(platform.NewTranslator("Test/one", c.naming, "{name}.service.test").Rows(&c.s))
			if got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestOneInstanceOfMany: of a service with many instances a change of one touches one slice.
// TestMutual: an instance that says who it is has a proxy, unless a label says otherwise.
func TestMutual(t *testing.T) {
	tr := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test")
	const mode = "security.istio.io/tlsMode"
	for _, c := range []struct {
		identity string
		labels   map[string]string
		want     bool
	}{
		{"", nil, false}, {"web", nil, true}, {"", map[string]string{mode: "istio"}, true},
		{"web", map[string]string{mode: "disabled"}, false}, {"bad\x00name", nil, false},
	} {
		in := at("a", "10.0.0.1", 80)
		in.Identity, in.Labels = c.identity, c.labels
		rows, _ := tr.Rows(&platform.Service{Name: "web", Instances: []platform.Instance{in}})
		if got := rows.Rows.Slices[0].Endpoints[0].MTLS; got != c.want {
			t.Errorf("identity %q, labels %v: mutual TLS %t, want %t", c.identity, c.labels, got, c.want)
		}
	}
}

func TestOneInstanceOfMany(t *testing.T) {
	tr := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test")
	s := platform.Service{Name: "web"}
	for i := range 5000 {
		s.Instances = append(s.Instances, at(fmt.Sprint("i", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), 80))
	}
	before, _ := tr.Rows(&s)
	s.Instances[77].Health = mesh.Draining
	slices.Reverse(s.Instances)
	after, _ := tr.Rows(&s)
	changed := 0
	for i, v := range after.Rows.Slices {
		if !v.Equal(before.Rows.Slices[i]) {
			changed++
		}
	}
	if changed != 1 || len(after.Rows.Slices) != len(before.Rows.Slices) {
		t.Errorf("%d of %d slices changed", changed, len(after.Rows.Slices))
	}
}

// TestWithinBounds: more instances, and more ports, than a service may have are left out and told.
func TestWithinBounds(t *testing.T) {
	s := platform.Service{Name: "web"}
	for i := range platform.MaxInstances + 1 {
		s.Instances = append(s.Instances, at(fmt.Sprint(i), "10.0.0.1", uint32(i%1000+1)))
	}
	shard, problems := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test").Rows(&s)
	if got := len(shard.Rows.Services[0].Ports); got != 100 {
		t.Errorf("%d ports", got)
	}
	if len(problems) != 2 {
		t.Errorf("problems: %v", problems)
	}
}

func TestBadNaming(t *testing.T) {
	err := platform.Naming{Host: "{nam}.{", Namespace: "{host}", Protocol: "smoke", Port: 70000}.Validate("datacenter")
	for _, want := range []string{
		"host: {nam} stands for nothing; want {name}, {namespace}, {datacenter}", "gives all services one host", "namespace:",
		"protocol: ", "port: 70000",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestBadReach(t *testing.T) {
	r := platform.Reach{
		URLs: []string{"ftp://x", "https://u:p@x", "http://x?a", "::"}, CertFile: "c", PasswordFile: "p", MaxAnswer: -1,
	}
	err := r.Validate()
	for _, want := range []string{
		"urls[0]", "urls[1]: it has a password", "urls[2]", "urls[3]", "certFile, keyFile", "passwordFile", "maxAnswerMiB",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (platform.Reach{}).Validate(); err == nil {
		t.Error("no URL is no mistake")
	}
}

func get(t *testing.T, r platform.Reach, c platform.Calls, url string) (string, error) {
	t.Helper()
	client := r.Client(c)
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// TestAnswersAreBounded: one that is too large, whether it says so or not, never ends, or sends elsewhere is given up.
func TestAnswersAreBounded(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/said", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1073741824") })
	mux.HandleFunc("/large", func(w http.ResponseWriter, q *http.Request) {
		for chunk := make([]byte, 1<<16); q.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		<-q.Context().Done()
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	mux.HandleFunc("/away", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, elsewhere.URL, http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/round", http.StatusFound) })
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/said": "more than 1 MiB", "/large": "more than 1 MiB", "/slow": "nothing more of the answer came",
		"/silent": "timeout awaiting response headers", "/away": "not followed", "/round": "not followed",
	} {
		r := platform.Reach{URLs: []string{server.URL}, MaxAnswer: 1}
		_, err := get(t, r, platform.Calls{Header: 200 * time.Millisecond, Idle: 200 * time.Millisecond}, server.URL+path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestClose: no connection is left of a client that was ended right after a request was given up, over HTTP/2 too, where that request's
// stream may still count.
func TestClose(t *testing.T) {
	asked, open := make(chan bool, 1), make(chan int, 1)
	open <- 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked <- q.ProtoMajor == 2
		<-q.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch n := <-open; s {
		case http.StateNew:
			open <- n + 1
		case http.StateClosed:
			open <- n - 1
		default:
			open <- n
		}
	}
	server.StartTLS()
	defer server.Close()
	r := platform.Reach{InsecureSkipVerify: true}
	for range 20 {
		client := r.Client(platform.Calls{HTTP2: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			q, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			_, err := client.Do(q)
			ended <- err
		}()
		if !<-asked {
			t.Fatal("it is not asked by HTTP/2")
		}
		cancel()
		<-ended
		platform.Close(client)
	}
	rig.Eventually(t, func() error {
		n := <-open
		open <- n
		if n > 0 {
			return fmt.Errorf("%d connections are left", n)
		}
		return nil
	})
}

// TestFilesAreReadAnew: a token that is exchanged counts for the next request, authorities for the next connection.
func TestFilesAreReadAnew(t *testing.T) {
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, q.Header.Get("X-Token")) }))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := platform.Reach{CAFile: write("ca", "nothing"), TokenFile: write("token", "first\n")}
	c := platform.Calls{Header: time.Second, Token: func(h http.Header, token string) { h.Set("X-Token", token) }}
	if _, err := get(t, r, c, server.URL); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("an authority that is none: %v", err)
	}
	write("ca", string(pemOf(server)))
	for _, want := range []string{"first", "second"} {
		write("token", want)
		if got, err := get(t, r, c, server.URL); err != nil || got != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
	write("token", "")
	if _, err := get(t, r, c, server.URL); err == nil || !strings.Contains(err.Error(), "tokenFile") {
		t.Errorf("an empty token: %v", err)
	}
}

// sink keeps what it gets.
type sink struct{ got []source.Update }

func (s *sink) Apply(u source.Update) { s.got = append(s.got, u) }

func TestOutbox(t *testing.T) {
	to := &sink{}
	b := &platform.Outbox{Sink: to}
	begun := time.Now()
	b.Put(begun, nil, nil)
	b.Fresh()
	b.Synced(begun, []source.Shard{{}}, nil)
	b.Synced(begun, []source.Shard{{}}, nil)
	b.Stale(errors.New("away"))
	b.Stale(errors.New("away"))
	b.Fresh()
	got := ""
	for _, u := range to.got {
		got += fmt.Sprintf("%d %t %q %t; ", len(u.Shards), u.Synced, u.Stale, u.Fresh)
	}
	if want := `1 true "" false; 1 false "" false; 0 false "away" false; 0 false "" true; `; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if s := b.Stats(); s.Reconnects != 1 || s.LastChange.Before(begun) {
		t.Errorf("%+v", s)
	}
}

func TestRetry(t *testing.T) {
	r := platform.Retry{Base: time.Second, Max: 10 * time.Second}
	for fails, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 100: 10 * time.Second} {
		for range 100 {
			if d := r.After(fails); d < most/2 || d > most {
				t.Fatalf("after %d failures %s", fails, d)
			}
		}
	}
}
