package nomad

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/golden"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/platform"
	"fairway/test/platform/registry/nomadstandin"
	"fairway/test/rig"
)

// TestGolden: registrations as Nomad gives them, and the rows that are made of them.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/registrations.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []*api.ServiceRegistration
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	account := platform.Limits{}.Account("Nomad/test")
	l := newLane(&Source{name: "Nomad/test", account: account, rows: platform.NewTranslator("Nomad/test", platform.Naming{}, defaultHost)},
		everywhere, Options{})
	for _, r := range all {
		l.book.Put(newRecord(service{Namespace: r.Namespace, Name: r.ServiceName}, r))
	}
	var b strings.Builder
	shards, problems := l.book.Flush()
	for _, shard := range shards {
		fmt.Fprintf(&b, "%s\n", shard.Key.Part)
		for _, v := range shard.Rows.Services {
			fmt.Fprintf(&b, "  %s %s %v exported to %v\n", v.Key, v.Resolution, v.Ports, v.ExportTo)
		}
		for _, v := range shard.Rows.Slices {
			for _, e := range v.Endpoints {
				fmt.Fprintf(&b, "    %s: %s %s labels %q at %q weight %d\n", e.ID, e.Address, e.Ports, e.Labels, e.Locality, e.Weight)
			}
		}
		for _, p := range problems[shard.Key.Part] {
			fmt.Fprintf(&b, "  ! %s\n", p)
		}
	}
	golden.File(t, "testdata/registrations.golden", b.String())
}

// TestEvents: what happens is one update of what changed alone, and nothing is asked for it.
func TestEvents(t *testing.T) {
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
	server.Register(at("web.1"), at("web.2"), at("shop/web.3"), at("db.4"))
	s, h := start(t, Options{}, server)
	_, n := h.next(t, 0, synced)
	want(t, h, "default/db: db.4; default/web: web.1 web.2; shop/web: web.3")
	followed(t, server, 1)
	asked := server.Asked("/v1/service/")
	for _, step := range []struct {
		do    func()
		parts []string
		want  string
	}{
		{
			func() { server.Register(at("web.5")) }, []string{"default/web"},
			"default/db: db.4; default/web: web.1 web.2 web.5; shop/web: web.3",
		},
		{
			func() { server.Deregister("default", "web", "web.1") }, []string{"default/web"},
			"default/db: db.4; default/web: web.2 web.5; shop/web: web.3",
		},
		{func() { server.Deregister("shop", "web", "web.3") }, []string{"shop/web"}, "default/db: db.4; default/web: web.2 web.5"},
		{func() { server.Register(at("new/api.6")) }, []string{"new/api"}, "default/db: db.4; default/web: web.2 web.5; new/api: api.6"},
		{
			func() { server.Register(at("db.4", "version=v2"), at("web.2", "canary")) }, []string{"default/db", "default/web"},
			"default/db: db.4; default/web: web.2 web.5; new/api: api.6",
		},
	} {
		step.do()
		var u source.Update
		u, n = h.next(t, n, changed)
		if got := parts(u); !slices.Equal(got, step.parts) {
			t.Errorf("it handed over %v, want %v", got, step.parts)
		}
		want(t, h, step.want)
	}
	server.Register(at("db.4", "version=v2")) // as it is
	server.Pass()
	server.Register(at("end.1"))
	if u, _ := h.next(t, n, func(u source.Update) bool { return len(u.Shards) > 0 }); !slices.Equal(parts(u), []string{"default/end"}) {
		t.Errorf("where nothing changed it handed over %v", parts(u))
	}
	if again := server.Asked("/v1/service/"); again != asked {
		t.Errorf("%d services were asked for because of events", again-asked)
	}
	if got := s.Stats(); got.Objects != 4 || got.Reconnects != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestResume: a stream that ends goes on where it was, as long as the server has what happened meanwhile; otherwise all is listed again.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		name    string
		forgets bool
		asked   int // services by themselves, because of that
	}{{"with events", false, 0}, {"without events", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
			server.Register(at("web.1"))
			_, h := start(t, Options{}, server)
			_, n := h.next(t, 0, synced)
			followed(t, server, 1)
			server.Register(at("web.2"))
			_, n = h.next(t, n, changed)
			before := server.Asked("/v1/service/")
			server.Kill()
			_, n = h.next(t, n, stale)
			server.Register(at("web.3"), at("db.4"))
			server.Deregister("default", "web", "web.1")
			if c.forgets {
				server.ForgetEvents()
			}
			server.Run(t, false)
			h.next(t, n, fresh)
			const all = "default/db: db.4; default/web: web.2 web.3"
			rig.Eventually(t, func() error {
				if got := h.endpoints(); got != all {
					return fmt.Errorf("there are %q", got)
				}
				return nil
			})
			if got := server.Asked("/v1/service/") - before; got != c.asked {
				t.Errorf("%d services were asked for, want %d", got, c.asked)
			}
		})
	}
}

// TestCutStreams: a stream that is cut is opened again without a word, and nothing is lost.
func TestCutStreams(t *testing.T) {
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
	server.Register(at("web.1"))
	_, h := start(t, Options{}, server)
	h.next(t, 0, synced)
	for i := range 5 {
		followed(t, server, i+1)
		server.CutStreams()
	}
	server.Register(at("web.2"))
	rig.Eventually(t, func() error {
		if got := h.endpoints(); got != "default/web: web.1 web.2" {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
	for _, u := range h.all() {
		if u.Stale != "" {
			t.Errorf("it says %q", u.Stale)
		}
	}
}

// TestLost: a server that comes back with nothing, or with less than half, removes nothing for a while, and that is
// reported.
func TestLost(t *testing.T) {
	missing := func(n int) func(source.Update) bool {
		return func(u source.Update) bool {
			list, said := u.Problems["missing *"]
			return said && len(list) == min(n, 1) &&
				(n == 0 || strings.HasPrefix(list[0].Message, fmt.Sprintf("instances are missing from the registry's list (%d)", n)))
		}
	}
	const all = "default/db: db.2; default/web: web.1 web.3 web.4"
	for _, c := range []struct {
		name, keep string
		lose       func(*nomadstandin.Server)
		empty      bool
		missing    int    // instances
		want       string // after a while
	}{
		{"nothing", "1h", func(*nomadstandin.Server) {}, true, 4, all},
		{"nothing, which is believed", "0s", func(*nomadstandin.Server) {}, true, 0, ""},
		{"nothing, for a moment", "50ms", func(*nomadstandin.Server) {}, true, 4, ""},
		{"less than half", "1h", func(s *nomadstandin.Server) {
			for _, id := range []string{"web.1", "web.3", "web.4"} {
				s.Deregister("default", "web", id)
			}
			s.ForgetEvents()
		}, false, 3, all},
		{"half", "1h", func(s *nomadstandin.Server) {
			s.Deregister("default", "web", "web.3")
			s.Deregister("default", "web", "web.4")
			s.ForgetEvents()
		}, false, 0, "default/db: db.2; default/web: web.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
			for range 5 {
				server.Pass()
			}
			server.Register(at("web.1"), at("web.3"), at("web.4"))
			server.Register(at("db.2"))
			_, h := start(t, Options{Missing: platform.Missing{KeepMissing: c.keep}}, server)
			_, n := h.next(t, 0, synced)
			followed(t, server, 1)
			server.Kill()
			c.lose(server)
			server.Run(t, c.empty)
			if c.missing > 0 {
				_, n = h.next(t, n, missing(c.missing))
			}
			rig.Eventually(t, func() error {
				if got := h.endpoints(); got != c.want {
					return fmt.Errorf("there are %q, want %q", got, c.want)
				}
				return nil
			})
			for _, in := range []string{"db.2", "web.1", "web.3", "web.4"} {
				server.Register(at(in))
			}
			if c.missing > 0 {
				h.next(t, n, missing(0))
			}
			rig.Eventually(t, func() error {
				if got := h.endpoints(); got != all {
					return fmt.Errorf("there are %q, want %q", got, all)
				}
				return nil
			})
			for _, u := range h.all() {
				for _, shard := range u.Shards {
					if c.keep == "1h" && shard.Rows.Len() == 0 {
						t.Errorf("it handed over that there is no %s", shard.Key.Part)
					}
				}
			}
		})
	}
}

// TestFailover: the next server is asked where one does not answer.
func TestFailover(t *testing.T) {
	a, b := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat}), nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
	for _, s := range []*nomadstandin.Server{a, b} {
		s.Register(at("web.1"))
	}
	_, h := start(t, Options{}, a, b)
	_, n := h.next(t, 0, synced)
	followed(t, a, 1)
	a.Kill()
	b.Register(at("web.2"))
	h.next(t, n, changed)
	want(t, h, "default/web: web.1 web.2")
}

// TestTokens: if a token may not read something, that is reported with what would be right; the file is read anew.
func TestTokens(t *testing.T) {
	server := nomadstandin.Start(t, nomadstandin.Options{
		Heartbeat: beat, Tokens: map[string][]string{"some": {"shop", "bank"}, "all": {nomadstandin.Everywhere}},
	})
	server.Register(at("shop/web.1"), at("bank/web.2"), at("dark/web.3"))
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{}
	o.TokenFile = file
	t.Run("all", func(t *testing.T) {
		write("none")
		_, h := start(t, o, server)
		u, n := h.next(t, 0, stale)
		if !strings.Contains(u.Stale, "403") || !strings.Contains(u.Stale, "tokenFile") || strings.Contains(u.Stale, "none") {
			t.Errorf("it says %q", u.Stale)
		}
		write("some\n") // it lists what it may, and follows nothing
		_, n = h.next(t, n, synced)
		want(t, h, "bank/web: web.2; shop/web: web.1")
		server.Register(at("shop/web.4"))
		_, n = h.next(t, n, changed)
		want(t, h, "bank/web: web.2; shop/web: web.1 web.4")
		write("all")
		h.next(t, n, fresh)
		want(t, h, "bank/web: web.2; dark/web: web.3; shop/web: web.1 web.4")
	})
	t.Run("some", func(t *testing.T) {
		write("some")
		some := o
		some.Namespaces = []string{"shop", "bank"}
		_, h := start(t, some, server)
		_, n := h.next(t, 0, synced)
		want(t, h, "bank/web: web.2; shop/web: web.1 web.4")
		server.Register(at("bank/web.5"))
		server.Register(at("dark/web.6"))
		server.Register(at("shop/web.7"))
		rig.Eventually(t, func() error {
			if got := h.endpoints(); got != "bank/web: web.2 web.5; shop/web: web.1 web.4 web.7" {
				return fmt.Errorf("there are %q", got)
			}
			return nil
		})
		for _, u := range h.all()[n:] {
			if u.Stale != "" {
				t.Errorf("it says %q", u.Stale)
			}
		}
	})
}

// TestTLS: a server is believed by its authority alone.
func TestTLS(t *testing.T) {
	certificate, keyText, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, keyText)
	if err != nil {
		t.Fatal(err)
	}
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat, TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
	server.Register(at("web.1"))
	file := filepath.Join(t.TempDir(), "ca.pem")
	other, _, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, other, 0o600); err != nil {
		t.Fatal(err)
	}
	name := "localhost"
	if pair.Leaf != nil && len(pair.Leaf.DNSNames) > 0 {
		name = pair.Leaf.DNSNames[0]
	}
	o := Options{Reach: servers.Reach{CAFile: file, ServerName: name}}
	_, h := start(t, o, server)
	u, n := h.next(t, 0, stale)
	if !strings.Contains(u.Stale, "certificate") {
		t.Errorf("it says %q", u.Stale)
	}
	if block, _ := pem.Decode(certificate); block == nil {
		t.Fatal("no certificate")
	}
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	h.next(t, n, synced)
}

// TestFaults: whatever a server does, the state stays, the registry reports the fault and the server, and goes on once the fault is
// over.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		want  string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "No cluster leader\x1b[2J", http.StatusInternalServerError)
		}, "No cluster leader"},
		"a page":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") }, "want an array"},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, "EOF"},
		"half": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `[{"Namespace":"default","Serv`)
		}, "unexpected EOF"},
		"1 GB said": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
		}, "more than 1 MiB"},
		"objects without end": {func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprint(w, `[`)
			for some := strings.Repeat("{},", 1<<10); q.Context().Err() == nil; {
				if _, err := fmt.Fprint(w, some); err != nil {
					return
				}
			}
		}, "more than 1 MiB"},
		"an error without end": {func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for some := strings.Repeat("x", 1<<10); q.Context().Err() == nil; {
				if _, err := fmt.Fprint(w, some); err != nil {
					return
				}
			}
		}, "500"},
		"redirects without end": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, q.URL.Path+"?again=1", http.StatusFound)
		}, "not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
			server.Register(at("web.1"), at("db.2"))
			o := Options{Reach: servers.Reach{MaxAnswer: 1}, Limits: platform.Limits{MaxInstances: 1000}}
			s, h := start(t, o, server)
			_, n := h.next(t, 0, synced)
			followed(t, server, 1)
			server.BreakBy(c.fault)
			server.CutStreams()
			u, m := h.next(t, n, stale)
			if !strings.Contains(u.Stale, server.URL()) || strings.Contains(u.Stale, "\x1b") || !strings.Contains(u.Stale, c.want) {
				t.Errorf("it says %q, want %q and the server's URL", u.Stale, c.want)
			}
			server.Register(at("web.3"))
			server.BreakBy(nil)
			h.next(t, m, fresh)
			rig.Eventually(t, func() error {
				if got := h.endpoints(); got != "default/db: db.2; default/web: web.1 web.3" {
					return fmt.Errorf("there are %q", got)
				}
				return nil
			})
			for _, u := range h.all()[n:] {
				for _, shard := range u.Shards {
					if shard.Rows.Len() == 0 {
						t.Errorf("it handed over that there is no %s", shard.Key.Part)
					}
				}
			}
			if got := s.Stats().Reconnects; got != 1 {
				t.Errorf("%d reconnects, want 1", got)
			}
		})
	}
}

// TestBadEvents: a stream with content that is not Nomad's costs a list.
func TestBadEvents(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":         "{\"Index\":",
		"no registration": `{"Index":99999,"Events":[{"Topic":"Service","Type":"ServiceRegistration","Payload":{"Service":{"ServiceName":7}}}]}` + "\n",
		"a long line":     `{"Index":99999,"Events":[{"Key":"` + strings.Repeat("x", maxEvent),
	} {
		t.Run(name, func(t *testing.T) {
			server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
			server.Register(at("web.1"))
			_, h := start(t, Options{}, server)
			h.next(t, 0, synced)
			followed(t, server, 1)
			server.BreakBy(func(w http.ResponseWriter, q *http.Request) {
				server.BreakBy(nil)
				if strings.HasSuffix(q.URL.Path, "/stream") {
					fmt.Fprint(w, text)
					return
				}
				server.ServeHTTP(w, q)
			})
			server.CutStreams()
			server.Register(at("web.2"))
			rig.Eventually(t, func() error {
				if got := h.endpoints(); got != "default/web: web.1 web.2" {
					return fmt.Errorf("there are %q", got)
				}
				return nil
			})
		})
	}
}

// TestTooMany: services beyond the bounds are left out and reported, and are read once there is room.
func TestTooMany(t *testing.T) {
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: beat})
	for i := range 5 {
		server.Register(at(fmt.Sprintf("s%d.1", i)), at(fmt.Sprintf("s%d.2", i)))
	}
	_, h := start(t, Options{Limits: platform.Limits{MaxServices: 3, MaxInstances: 5}}, server)
	u, n := h.next(t, 0, synced)
	want(t, h, "default/s0: s0.1 s0.2; default/s1: s1.1 s1.2; default/s2: s2.1")
	if list := slices.Collect(maps.Values(u.Problems)); len(list) != 1 || !strings.Contains(list[0][0].Message, "3 so far") {
		t.Errorf("it says %v", u.Problems)
	}
	for i := range 3 {
		server.Deregister("default", fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.1", i))
		server.Deregister("default", fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.2", i))
	}
	h.next(t, n, func(u source.Update) bool {
		list, said := u.Problems["budget"]
		return said && len(list) == 0
	})
	want(t, h, "default/s3: s3.1 s3.2; default/s4: s4.1 s4.2")
}

// TestValidate: each mistake is reported with its field.
func TestValidate(t *testing.T) {
	good := Options{Reach: servers.Reach{URLs: []string{"http://127.0.0.1:4646"}}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Options){
		"urls":          func(o *Options) { o.URLs = nil },
		"urls[0]":       func(o *Options) { o.URLs = []string{"http://127.0.0.1:4646/nomad"} },
		"namespaces[1]": func(o *Options) { o.Namespaces = []string{"a", "*"} },
		"namespaces[0]": func(o *Options) { o.Namespaces = []string{""} },
		"namespaces[2]": func(o *Options) { o.Namespaces = []string{"a", "b", "a"} },
		"namespaces":    func(o *Options) { o.Namespaces = make([]string, maxNamespaces+1) },
		"region":        func(o *Options) { o.Region = "a\nb" },
		"keepMissing":   func(o *Options) { o.KeepMissing = "1" },
		"maxServices":   func(o *Options) { o.MaxServices = -1 },
		"maxInstances":  func(o *Options) { o.MaxInstances = -1 },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New("Nomad/test", o, nil); err == nil {
			t.Errorf("%s: a source is made of it", field)
		}
	}
}

// TestEndWhileAsking: a source ends at once, though a server does not answer.
func TestEndWhileAsking(t *testing.T) {
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: time.Hour})
	_, h := start(t, Options{}, server)
	h.next(t, 0, synced)
	deadline := time.Now().Add(20 * time.Second)
	for server.Asked("/v1/event/stream") == 0 && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
}
