package consul

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"fairway/internal/servers"
	"fairway/internal/source/platform"
	"fairway/test/rig"
)

func optionsOf(f *fake) Options {
	return Options{Reach: servers.Reach{URLs: []string{f.URL}, MaxAnswer: 4}}
}

// at says whether a request is for a path.
func at(path string, do http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasPrefix(q.URL.Path, path) {
			return false
		}
		do(w, q)
		return true
	}
}

func text(code int, s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "500")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, s)
	}
}

// endless says the same again and again, a GiB of it.
func endless(before, s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		block := strings.Repeat(s, 1<<16/len(s))
		_, err := io.WriteString(w, before)
		for range 1 << 14 {
			if err != nil {
				return
			}
			_, err = io.WriteString(w, block)
		}
	}
}

// Any fault of a server is reported with its URL, removes nothing, and ends when the server is well again.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		says  string
	}{
		"no leader":       {at("/v1/status", text(200, `""`)), "knows no leader"},
		"no Consul":       {at("/", text(200, "<html>hello</html>")), "cannot be read"},
		"refused":         {at("/v1/health", text(403, "ACL not found")), "refuses the token"},
		"broken":          {at("/", text(500, "No cluster leader")), "500"},
		"garbage list":    {at("/v1/catalog/services", text(200, `{"a":`)), "cannot be read"},
		"list of numbers": {at("/v1/catalog/services", text(200, `[1,2]`)), "want an object"},
		"endless list":    {at("/v1/catalog/services", endless("{", `"abc":[],`)), "more than 4 MiB"},
		"endless string":  {at("/v1/catalog/services", endless(`{"`, "abcdefgh")), "more than 4 MiB"},
		"endless error": {at("/v1/catalog/services", func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(500)
			endless("", "no ")(w, q)
		}), "500"},
		"redirects to itself": {at("/v1/", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, q.URL.Path+"x", http.StatusFound)
		}), "is not followed"},
		"redirects elsewhere": {at("/v1/", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://198.51.100.7/", http.StatusFound)
		}), "is not followed"},
		"breaks off": {at("/v1/catalog/services", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "EOF"},
		"half": {at("/v1/catalog/services", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"web":[]`)
		}), "cannot be read"},
		"a token that may read nothing": {at("/v1/catalog/services", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-LastContact", "0")
			w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
			_, _ = io.WriteString(w, `{}`)
		}), "may read no service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Start()
			f.set("web", "10.0.0.1")
			f.set("shop", "10.0.0.2", "10.0.0.3")
			k, _ := follow(t, optionsOf(f))
			k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == 2 })
			f.misbehave(c.fault)
			v := k.await(t, "being stale", func(v view) bool { return strings.Contains(v.stale, c.says) })
			if !strings.Contains(v.stale, f.URL) || v.gone > 0 || len(v.rows) != 2 {
				t.Errorf("%d services, %d went; stale: %s", len(v.rows), v.gone, v.stale)
			}
			f.set("web", "10.0.0.9")
			f.misbehave(nil)
			k.await(t, "the change", func(v view) bool { return v.stale == "" && fmt.Sprint(v.rows["web"]) == "[10.0.0.9]" })
			if v, _ := k.view(); v.gone > 0 {
				t.Errorf("%d services went", v.gone)
			}
		})
	}
}

// A server that is away at the start is waited for.
func TestAwayAtStart(t *testing.T) {
	f := newFake(t)
	f.Start()
	f.set("web", "10.0.0.1")
	f.misbehave(at("/", text(503, "later")))
	k, _ := follow(t, optionsOf(f))
	if v := k.await(t, "being stale", func(v view) bool { return v.stale != "" }); v.synced {
		t.Error("synced with nothing read")
	}
	f.misbehave(nil)
	k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == 1 && v.stale == "" })
}

// A name that no host can be made of is a problem of its own: nothing is asked of it, and all others are read.
func TestStrangeNames(t *testing.T) {
	f := newFake(t)
	f.Start()
	strange := []string{"a\x01b", "..", "a b", "../catalog/services", "bücher"}
	f.set("good", "10.0.0.1")
	for _, name := range strange {
		f.set(name, "10.0.0.2")
	}
	k, _ := follow(t, optionsOf(f))
	v := k.await(t, "the first reading", func(v view) bool { return v.synced })
	if len(v.rows) != 1 || strings.Count(v.problems, "left out") != len(strange) || v.stale != "" {
		t.Errorf("services %v, stale %q, problems %s", v.rows, v.stale, v.problems)
	}
	if n := f.count("/v1/health/service/"); n != f.count("/v1/health/service/good")+f.count("/v1/health/service/consul") {
		t.Errorf("%d questions were asked of services", n)
	}
	for _, name := range strange {
		f.set(name)
	}
	k.await(t, "that they are gone", func(v view) bool { return v.problems == "" && len(v.rows) == 1 })
}

// An answer for one service that cannot be read is that service's problem alone, and holds up neither start nor others.
func TestOneServiceUnreadable(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"garbage": text(200, "[{]"),
		"endless": endless("[", "{},"),
		"refused": text(400, ""), // as Consul does where the name has control characters
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Start()
			f.set("good", "10.0.0.1")
			f.set("bad", "10.0.0.2")
			f.misbehave(at("/v1/health/service/bad", bad))
			k, _ := follow(t, optionsOf(f))
			v := k.await(t, "the first reading", func(v view) bool { return v.synced })
			if len(v.rows) != 1 || !strings.Contains(v.problems, "service bad") || v.stale != "" {
				t.Errorf("services %v, stale %q, problems %s", v.rows, v.stale, v.problems)
			}
			f.set("good", "10.0.0.8")
			k.await(t, "the change", func(v view) bool { return fmt.Sprint(v.rows["good"]) == "[10.0.0.8]" })
			f.misbehave(nil)
			k.await(t, "the other", func(v view) bool { return len(v.rows["bad"]) == 1 && v.problems == "" })
		})
	}
}

// An index lower than the last one: missing things stay for a while, and new ones are read at once.
func TestIndexGoesBack(t *testing.T) {
	f := newFake(t)
	f.Start()
	f.set("web", "10.0.0.1", "10.0.0.2")
	f.set("shop", "10.0.0.3")
	o := optionsOf(f)
	o.KeepMissing = "1s"
	k, _ := follow(t, o)
	k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == 2 })
	f.misbehave(at("/", text(503, "restarting")))
	k.await(t, "being stale", func(v view) bool { return strings.Contains(v.stale, "restarting") })
	f.mu.Lock()
	f.index, f.at, f.has = 2, map[string]uint64{"web": 2, "new": 2}, map[string][]string{"web": {"10.0.0.1"}, "new": {"10.0.0.7"}}
	f.listed = 2
	f.mu.Unlock()
	f.misbehave(nil)
	v := k.await(t, "what is new", func(v view) bool { return len(v.rows["new"]) == 1 })
	if len(v.rows["web"]) != 2 || len(v.rows["shop"]) != 1 || !strings.Contains(v.stale, "older") {
		t.Errorf("at once there are %v, stale %q", v.rows, v.stale)
	}
	k.await(t, "the end of it", func(v view) bool { return v.stale == "" && len(v.rows["web"]) == 1 && len(v.rows) == 2 })
	f.set("web", "10.0.0.4")
	k.await(t, "the next change", func(v view) bool { return fmt.Sprint(v.rows["web"]) == "[10.0.0.4]" })
}

// A list that lacks more than half of the services takes none away for a while, though its index is a new one; one that lacks half does.
func TestHalfIsMissing(t *testing.T) {
	f := newFake(t)
	f.Start()
	for _, name := range []string{"a", "b", "c", "d"} {
		f.set(name, "10.0.0.1")
	}
	o := optionsOf(f)
	o.KeepMissing = "1s"
	k, _ := follow(t, o)
	k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == 4 })
	leave := func(names ...string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.index++
		for _, name := range names {
			delete(f.has, name)
			f.at[name] = f.index
		}
		f.at["e"], f.has["e"], f.listed = f.index, []string{"10.0.0.2"}, f.index
		f.wake()
	}
	leave("a", "b", "c")
	v := k.await(t, "what is new", func(v view) bool { return len(v.rows["e"]) == 1 && v.stale != "" })
	if len(v.rows) != 5 || v.gone > 0 || !strings.Contains(v.stale, "no more than 1 of 4 services") {
		t.Errorf("at once there are %v, stale %q", v.rows, v.stale)
	}
	k.await(t, "the end of it", func(v view) bool { return v.stale == "" && len(v.rows) == 2 })
	leave("d")
	k.await(t, "what left", func(v view) bool { return v.stale == "" && len(v.rows) == 1 })
}

// If the answers of a server have no index, or never wait, it is not asked in a busy loop.
func TestNoIndex(t *testing.T) {
	f := newFake(t)
	f.Start()
	f.set("web", "10.0.0.1")
	f.misbehave(func(w http.ResponseWriter, q *http.Request) bool {
		f.mu.Lock()
		_, all := f.answer(q)
		f.mu.Unlock()
		_, _ = io.WriteString(w, all)
		return true
	})
	k, _ := follow(t, optionsOf(f))
	k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == 1 })
	f.set("web", "10.0.0.2")
	k.await(t, "the change", func(v view) bool { return fmt.Sprint(v.rows["web"]) == "[10.0.0.2]" })
	if n := f.count("/v1/health/service/web"); n > 30 {
		t.Errorf("it was asked %d times for two answers", n)
	}
}

// Over HTTP/1.1 most services are looked through: connections are bounded, a change costs a look at each, and one that has
// changed is waited for. If Consul takes fewer connections, fewer services are waited for.
func TestManyServices(t *testing.T) {
	const services = 400
	for _, multiple := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", multiple), func(t *testing.T) {
			f := newFake(t)
			o := optionsOf(f)
			if f.EnableHTTP2 = multiple; multiple {
				f.StartTLS()
				o.InsecureSkipVerify = true
			} else {
				f.Start()
			}
			o.URLs = []string{f.URL}
			for i := range services {
				f.set(fmt.Sprintf("s%d", i), "10.0.0.1")
			}
			k, s := follow(t, o)
			k.await(t, "the first reading", func(v view) bool { return v.synced && len(v.rows) == services })
			for i := range 5 {
				name, address := fmt.Sprintf("s%d", i*7), fmt.Sprintf("10.0.1.%d", i+1)
				f.set(name, address)
				k.await(t, "a change of "+name, func(v view) bool { return fmt.Sprint(v.rows[name]) == "["+address+"]" })
			}
			if !multiple {
				rig.Eventually(t, func() error { // services without a waiting query are looked at in turn
					if looks := f.count("/v1/catalog/service/"); looks < services-http1Watches {
						return fmt.Errorf("%d looks", looks)
					}
					return nil
				})
			}
			f.mu.Lock()
			most := f.most
			f.mu.Unlock()
			s.mu.Lock()
			held := s.waitingQueries
			s.mu.Unlock()
			looks := f.count("/v1/catalog/service/")
			t.Logf("%d connections, %d services waited for, %d looks, %d requests for services",
				most, held, looks, f.count("/v1/health/service/"))
			if multiple && (most > 100 || held != services || looks > 0) ||
				!multiple && (most > 170 || held != http1Watches || looks < services-http1Watches) {
				t.Errorf("%d connections, %d services waited for, %d looks", most, held, looks)
			}
			if multiple {
				return
			}
			f.misbehave(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasPrefix(q.URL.Path, "/v1/health/service/s") || q.URL.Query().Get("index") == "" {
					return false
				}
				f.mu.Lock()
				crowded := f.open > 40
				f.mu.Unlock()
				if crowded {
					text(429, "Your IP is issuing too many concurrent connections")(w, q)
				}
				return crowded
			})
			f.set("s399", "10.0.2.1")
			k.await(t, "a change", func(v view) bool { return fmt.Sprint(v.rows["s399"]) == "[10.0.2.1]" })
			rig.Eventually(t, func() error { // the next wait is refused, which may come after the change
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.waitingQueries >= http1Watches {
					return fmt.Errorf("%d services are waited for still", s.waitingQueries)
				}
				return nil
			})
		})
	}
}

// A service that is still being read when another takes its place is read all the same.
func TestDisplacedWhileRead(t *testing.T) {
	f := newFake(t)
	f.Start()
	f.set("slow", "10.0.0.1")
	var asked atomic.Int32
	f.misbehave(func(_ http.ResponseWriter, q *http.Request) bool {
		first := strings.HasSuffix(q.URL.Path, "/health/service/slow") && asked.Add(1) == 1
		if first {
			<-q.Context().Done()
		}
		return first
	})
	o := optionsOf(f)
	o.MaxWatches = 1
	k, s := follow(t, o)
	rig.Eventually(t, func() error {
		if asked.Load() == 0 {
			return errors.New("nobody asked for the slow one")
		}
		return nil
	})
	f.set("quick", "10.0.0.2")
	rig.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v := s.services["quick"]; v == nil || !v.read {
			return errors.New("the quick one is not read")
		}
		return nil
	})
	f.set("quick", "10.0.0.3")
	k.await(t, "both", func(v view) bool {
		return v.synced && len(v.rows["slow"]) == 1 && fmt.Sprint(v.rows["quick"]) == "[10.0.0.3]"
	})
}

// More services than there may be are left out, and told.
func TestTooManyServices(t *testing.T) {
	var b strings.Builder
	b.WriteString("{")
	for i := range mostServices + 5000 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"s%d":[]`, i)
	}
	b.WriteString("}")
	l := nameList{most: mostServices}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := l.read(platform.NewStream(strings.NewReader(b.String()))); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if len(l.names) != mostServices || l.over != 5000 {
		t.Errorf("%d names, %d over", len(l.names), l.over)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
		t.Errorf("it took %d bytes", used)
	}
	var all entries
	err := all.read(platform.NewStream(strings.NewReader("[" + strings.Repeat("{},", mostEntries+1) + "{}]")))
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
}

// Variables of the environment that Consul's own tools heed say nothing here, nor does a token that belongs elsewhere.
func TestEnvironment(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "stray")
	t.Setenv("CONSUL_HTTP_AUTH", "user:stray")
	f := newFake(t)
	f.Start()
	f.set("web", "10.0.0.1")
	seen := make(chan string, 100)
	f.misbehave(func(_ http.ResponseWriter, q *http.Request) bool {
		select {
		case seen <- q.Header.Get("X-Consul-Token") + q.Header.Get("Authorization"):
		default:
		}
		return false
	})
	k, _ := follow(t, optionsOf(f))
	k.await(t, "the first reading", func(v view) bool { return v.synced })
	for range len(seen) {
		if s := <-seen; s != "" {
			t.Fatalf("it was shown %q", s)
		}
	}
}
