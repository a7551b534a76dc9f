package eureka

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// TestFaults: whatever a server does, the state stays, the registry reports the fault and the server, and goes on once the fault is
// over.
func TestFaults(t *testing.T) {
	whole := apps("A.1=UP", "B.1=UP")
	elsewhere := newFake(t)
	elsewhere.say(apps("EVIL.1=UP"), apps("EVIL.1=UP"))
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		want  string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no leader\x1b[2J", http.StatusInternalServerError)
		}, "500: no leader"},
		"not ready yet": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "403"},
		"a page":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") }, "not valid for Eureka"},
		"XML":           {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<applications/>") }, "not valid for Eureka"},
		"no applications": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"ok"}`)
		}, "lists no applications"},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, "EOF"},
		"half of it": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, whole[:len(whole)/2])
		}, "unexpected EOF"},
		"cut connections": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			fmt.Fprint(w, whole[:len(whole)/2])
		}, "unexpected EOF"},
		"another type": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"applications":{"application":[{"name":"A","instance":[{"ipAddr":7}]}]}}`)
		}, "not valid for Eureka"},
		"1 GB said": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
		}, "more than 1 MiB"},
		"1 GB": {func(w http.ResponseWriter, q *http.Request) {
			for line := strings.Repeat("x", 1<<16); q.Context().Err() == nil; {
				if _, err := fmt.Fprint(w, `{"applications":{"a":"`, line); err != nil {
					return
				}
			}
		}, "not valid for Eureka"},
		"instances without end": {func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprint(w, `{"applications":{"application":[{"name":"A","instance":[`)
			for some := strings.Repeat(`{"a":"`+strings.Repeat("x", 100)+`"},`, 1<<9); q.Context().Err() == nil; {
				if _, err := fmt.Fprint(w, some); err != nil {
					return
				}
			}
		}, "more than 1 MiB"},
		"a small answer that grows": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, `{"applications":{"application":[{"name":"`)
			for some := strings.Repeat(" ", 1<<16); ; {
				if _, err := fmt.Fprint(z, some); err != nil {
					return
				}
			}
		}, "more than 1 MiB"},
		"deep": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"applications":{"x":`, strings.Repeat("[", 1<<17))
		}, "not valid for Eureka"},
		"redirects without end": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, q.URL.Path+"?again="+q.URL.RawQuery, http.StatusFound)
		}, "not followed"},
		"sent elsewhere": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL+q.URL.Path, http.StatusFound)
		}, "not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.say(whole, apps("#UP_2_"))
			o := Options{Reach: servers.Reach{MaxAnswer: 1}}
			s, h := start(t, o, f)
			_, n := h.next(t, 0, synced)
			f.breakBy(c.fault)
			u, m := h.next(t, n, stale)
			if !strings.Contains(u.Stale, c.want) || !strings.Contains(u.Stale, f.URL) || strings.Contains(u.Stale, "\x1b") {
				t.Errorf("it says %q, want %q and the server's URL", u.Stale, c.want)
			}
			f.await(t, "/apps", f.count("/apps")+2)
			f.say(apps("A.1=UP", "B.1=DOWN"), apps("#DOWN_1_UP_1_"))
			h.next(t, m, fresh)
			if got, want := h.endpoints(), "A.1=HEALTHY B.1=UNHEALTHY"; got != want {
				t.Errorf("there are %s, want %s", got, want)
			}
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

// TestAwayAtTheStart: a server that is away is waited for, and nothing is handed over until it has been read.
func TestAwayAtTheStart(t *testing.T) {
	f := newFake(t)
	f.breakBy(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	_, h := start(t, Options{}, f)
	_, n := h.next(t, 0, stale)
	f.await(t, "/apps", 3)
	f.say(apps("A.1=UP"), apps("#UP_1_"))
	u, _ := h.next(t, 0, synced)
	if len(u.Shards) != 1 {
		t.Errorf("it handed over %v", parts(u))
	}
	for _, u := range h.all()[:n] {
		if len(u.Shards) > 0 || u.Synced {
			t.Errorf("before the server was there it said %+v", u)
		}
	}
	h.next(t, n, fresh)
}

// TestEndWhileAsking: a source ends at once, though a server does not answer.
func TestEndWhileAsking(t *testing.T) {
	f := newFake(t)
	f.breakBy(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	_, h := start(t, Options{}, f)
	f.await(t, "/apps", 1)
	if len(h.all()) != 0 {
		t.Errorf("it said %+v", h.all())
	}
}

// manyServices is a multiple of the number of services that are read; a million takes the test ten times as long and
// leaves no more behind.
const manyServices = 100_000

// TestTooMany: services beyond the bounds are left out and reported, memory is bounded, and they are read once there is
// room.
func TestTooMany(t *testing.T) {
	f := newFake(t)
	many := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"applications":{"application":[`)
		for i := range manyServices {
			fmt.Fprintf(w, `{"name":"S%d","instance":[{"instanceId":"i","ipAddr":"10.0.0.1","status":"UP","port":{"$":80,"@enabled":"true"}}]},`, i)
		}
		fmt.Fprint(w, `{"name":"BIG","instance":{"hostName":"`, strings.Repeat("x", maxInstance), `"}}]}}`)
	}
	f.breakBy(many)
	o := Options{Limits: platform.Limits{MaxServices: 10, MaxInstances: 20}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, h := start(t, o, f)
	u, n := h.next(t, 0, synced)
	runtime.GC()
	if runtime.ReadMemStats(&after); after.HeapAlloc > before.HeapAlloc+64<<20 {
		t.Errorf("so many services left %d MiB", (after.HeapAlloc-before.HeapAlloc)>>20)
	}
	left := fmt.Sprintf("%d so far", manyServices-9)
	if len(u.Shards) != 10 || !strings.Contains(u.Problems["budget"][0].Message, left) {
		t.Errorf("%d services; %v", len(u.Shards), u.Problems)
	}
	f.say(apps("S0.1=UP", "NEW.1=UP"), apps("#UP_2_"))
	u, _ = h.next(t, n, changed)
	if list, said := u.Problems["budget"]; !said || len(list) > 0 {
		t.Errorf("once there is room it says %v", u.Problems)
	}
}

// TestValidate: each mistake is reported with its field.
func TestValidate(t *testing.T) {
	good := Options{Reach: servers.Reach{URLs: []string{"http://127.0.0.1:8761/eureka"}}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Options){
		"urls":         func(o *Options) { o.URLs = nil },
		"refresh":      func(o *Options) { o.Refresh = "5" },
		"keepMissing":  func(o *Options) { o.KeepMissing = "-1s" },
		"services":     func(o *Options) { o.Services = "all" },
		"region":       func(o *Options) { o.Region = "a\nb" },
		"maxServices":  func(o *Options) { o.MaxServices = -1 },
		"maxInstances": func(o *Options) { o.MaxInstances = -1 },
		"host":         func(o *Options) { o.Host = "all" },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New("Eureka/test", o, nil); err == nil {
			t.Errorf("%s: a source is made of it", field)
		}
	}
}

// FuzzRead: no answer has the reader fail otherwise than by an error.
func FuzzRead(f *testing.F) {
	f.Add(apps("A.1=UP"))
	f.Add(`{"applications":{"application":{"instance":{"port":"8","metadata":{"a":[1],"b":null}},"name":"A"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := stateOf(Options{Services: byVIP})
		a := s.all()
		if _, err := read(strings.NewReader(text), a.add); err != nil {
			return
		}
		s.book.Replace(a.List, true, time.Time{})
		s.book.Flush()
	})
}
