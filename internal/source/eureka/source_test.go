package eureka

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// TestChanges: deltas and their results; each delta is one update of only the services that changed.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name        string
		before      []string
		delta       []string
		all         []string // that is answered where everything is read again
		parts       []string
		want        string
		everything  bool // is read again
		missingTold bool
	}{
		{
			name: "one more", before: []string{"A.1=UP", "B.1=UP"}, delta: []string{"A.2=UP", "#UP_3_"},
			parts: []string{"/A"}, want: "A.1=HEALTHY A.2=HEALTHY B.1=HEALTHY",
		},
		{
			name: "one less", before: []string{"A.1=UP", "A.2=UP", "B.1=UP"}, delta: []string{"A.2=DELETED", "#UP_2_"},
			parts: []string{"/A"}, want: "A.1=HEALTHY B.1=HEALTHY",
		},
		{
			name: "the last of a service", before: []string{"A.1=UP", "B.1=UP"}, delta: []string{"A.1=DELETED", "#UP_1_"},
			parts: []string{"/A"}, want: "B.1=HEALTHY",
		},
		{
			name: "another status", before: []string{"A.1=UP", "B.1=UP"}, delta: []string{"B.1=DOWN", "#DOWN_1_UP_1_"},
			parts: []string{"/B"}, want: "A.1=HEALTHY B.1=UNHEALTHY",
		},
		{
			name: "come and gone, in order", before: []string{"A.1=UP"}, delta: []string{"A.2=UP", "A.2=DELETED", "B.1=UP", "#UP_2_"},
			parts: []string{"/A", "/B"}, want: "A.1=HEALTHY B.1=HEALTHY",
		},
		{
			name: "what does not add up is read again", before: []string{"A.1=UP"}, delta: []string{"#UP_2_"},
			all: []string{"A.1=UP", "B.1=UP"}, parts: []string{"/B"}, want: "A.1=HEALTHY B.1=HEALTHY", everything: true,
		},
		{
			name: "who is missing, and was not told to have left, stays", before: []string{"A.1=UP", "B.1=UP", "C.1=UP"},
			delta: []string{"#UP_1_"}, all: []string{"C.1=DOWN"}, parts: []string{"/C"},
			want: "A.1=HEALTHY B.1=HEALTHY C.1=UNHEALTHY", everything: true, missingTold: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.say(apps(c.before...), apps("#"+hashOf(t, c.before)))
			s, h := start(t, Options{}, f)
			_, n := h.next(t, 0, synced)
			f.await(t, "/apps/delta", 2)
			if len(h.all()) != n {
				t.Fatalf("where nothing changed it said %+v", h.all()[n:])
			}
			before := f.count("/apps")
			f.say(apps(c.all...), apps(c.delta...))
			u, _ := h.next(t, n, changed)
			if got := parts(u); !slices.Equal(got, c.parts) {
				t.Errorf("it handed over %v, want %v", got, c.parts)
			}
			if got := h.endpoints(); got != c.want {
				t.Errorf("there are %s, want %s", got, c.want)
			}
			if again := f.count("/apps") > before; again != c.everything {
				t.Errorf("everything read again: %v, want %v", again, c.everything)
			}
			if got := told(placeMissing)(u); got != c.missingTold {
				t.Errorf("told of those that are missing: %v, want %v", got, c.missingTold)
			}
			if got := s.Stats(); got.Objects == 0 || got.LastChange.IsZero() || got.Lag > 10*time.Second {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

func hashOf(t *testing.T, all []string) string {
	t.Helper()
	s := stateOf(Options{})
	return take(t, s, apps(all...))
}

// TestOldChanges: a server reports changes that are minutes old; a newer read takes precedence.
func TestOldChanges(t *testing.T) {
	s := stateOf(Options{})
	take(t, s, `{"applications":{"application":[{"name":"A","instance":[
		{"instanceId":"1","ipAddr":"10.0.0.1","status":"UP","port":{"$":80,"@enabled":true},"lastUpdatedTimestamp":"20"}]}]}}`)
	old := func(at number) *record {
		return &record{key: key{"A", "1"}, status: "DOWN", address: "10.0.0.1", updated: at}
	}
	s.apply([]change{{old(19), false}, {old(19), true}})
	if got := s.hash(); got != "UP_1_" {
		t.Errorf("after an old change it counts %s", got)
	}
	s.apply([]change{{old(20), false}})
	if got := s.hash(); got != "DOWN_1_" {
		t.Errorf("after a new change it counts %s", got)
	}
}

// TestMissing: a missing instance goes after a while, is reported until then, and comes back unchanged without an update.
func TestMissing(t *testing.T) {
	s := stateOf(Options{Missing: platform.Missing{KeepMissing: "1m"}})
	begin := time.Now()
	read := func(at time.Time, vanished bool, all ...string) (string, int) {
		a := s.all()
		if _, err := read(strings.NewReader(apps(all...)), a.add); err != nil {
			t.Fatal(err)
		}
		s.book.Replace(a.List, vanished, at)
		s.book.Expire(at)
		shards, problems := s.book.Flush()
		var out []string
		for _, shard := range shards {
			out = append(out, shard.Key.Part)
		}
		return strings.Join(out, " "), len(problems[placeMissing])
	}
	for i, step := range []struct {
		after    time.Duration
		vanished bool
		all      []string
		changed  string
		problems int
	}{
		{0, true, []string{"A.1=UP", "A.2=UP", "B.1=UP", "B.2=UP"}, "/A /B", 0},
		{0, false, []string{"A.1=UP", "A.2=UP", "B.1=UP"}, "/B", 0},                // one that left, as nothing was interrupted
		{time.Second, true, []string{"B.1=UP"}, "", 1},                             // two that vanished
		{2 * time.Second, true, []string{"A.1=UP", "B.1=UP"}, "", 1},               // one is back
		{3 * time.Second, true, []string{"A.1=UP", "A.2=DOWN", "B.1=UP"}, "/A", 0}, // so is the other, as another
		{4 * time.Second, false, []string{"B.1=UP"}, "", 1},                        // more than half at once: they all stay
		{63 * time.Second, true, []string{"B.1=UP"}, "", 1},                        // nothing new
		{64 * time.Second, true, []string{"B.1=UP"}, "/A", 0},                      // their time is over
	} {
		changed, problems := read(begin.Add(step.after), step.vanished, step.all...)
		if changed != step.changed || problems != step.problems {
			t.Errorf("step %d: changed %q, %d problems; want %q, %d", i, changed, problems, step.changed, step.problems)
		}
	}
	if s.book.Len() != 1 {
		t.Errorf("%d services are left, want 1", s.book.Len())
	}
}

// TestIncrementalIsWhole: after random deltas and full reads, the state is that of a fresh reader.
func TestIncrementalIsWhole(t *testing.T) {
	now := map[string]string{}
	s := stateOf(Options{Services: byVIP})
	handed := map[string]string{} // by part
	flush := func(s *state, into map[string]string) {
		shards, _ := s.book.Flush()
		for _, shard := range shards {
			into[shard.Key.Part] = printed([]source.Shard{shard}, nil)
			if shard.Rows.Len() == 0 {
				delete(into, shard.Key.Part)
			}
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	next := func(n uint64) uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return (seed >> 33) % n }
	states := []string{"UP", "DOWN", "STARTING", "OUT_OF_SERVICE"}
	for range 2000 {
		id := string(rune('A'+next(5))) + "." + string(rune('1'+next(6)))
		status := states[next(4)]
		if next(3) == 0 {
			status = deleted
		}
		if status == deleted {
			delete(now, id)
		} else {
			now[id] = status
		}
		var list []string
		for k, v := range now {
			list = append(list, k+"="+v)
		}
		if next(5) == 0 {
			a := s.all()
			if _, err := read(strings.NewReader(apps(list...)), a.add); err != nil {
				t.Fatal(err)
			}
			s.book.Replace(a.List, false, time.Now())
			s.book.Expire(time.Now().Add(time.Hour))
		} else {
			var changes []change
			if _, err := read(strings.NewReader(apps(id+"="+status)), func(app string, in *instance) {
				r, _ := newRecord(byVIP, app, in)
				r.updated = 0
				changes = append(changes, change{r, in.Action == deleted})
			}); err != nil {
				t.Fatal(err)
			}
			s.apply(changes)
		}
		whole := stateOf(Options{Services: byVIP})
		take(t, whole, apps(list...))
		want := map[string]string{}
		flush(s, handed)
		flush(whole, want)
		if s.hash() != whole.hash() || s.book.Len() != whole.book.Len() {
			t.Fatalf("it counts %s in %d services, want %s in %d", s.hash(), s.book.Len(), whole.hash(), whole.book.Len())
		}
		if diff := cmp.Diff(want, handed); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestPeers: the next server is asked where one fails, everything is read of it, and what it does not have stays.
func TestPeers(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.say(apps("A.1=UP", "A.2=UP"), apps("#UP_2_"))
	b.say(apps("A.1=UP", "C.1=UP"), apps("#UP_2_"))
	_, h := start(t, Options{}, a, b)
	_, n := h.next(t, 0, synced)
	a.Close()
	u, _ := h.next(t, n, changed)
	if got := parts(u); !slices.Equal(got, []string{"/C"}) || !told(placeMissing)(u) {
		t.Errorf("it handed over %v %v", got, u.Problems)
	}
	if got, want := h.endpoints(), "A.1=HEALTHY A.2=HEALTHY C.1=HEALTHY"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	b.await(t, "/apps/delta", 2)
	if n := b.count("/apps"); n != 1 {
		t.Errorf("everything was read %d times of the other server, want once", n)
	}
}

// TestNoDelta: of a server that does not tell changes everything is read each time, and who is missing has left.
func TestNoDelta(t *testing.T) {
	f := newFake(t)
	var all, few = apps("A.1=UP", "A.2=UP", "B.1=UP"), apps("A.1=UP", "B.1=UP")
	f.say(all, "")
	refuse := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/delta") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(text))
		}
	}
	f.breakBy(refuse(all))
	_, h := start(t, Options{}, f)
	_, n := h.next(t, 0, synced)
	f.await(t, "/apps", 3)
	f.breakBy(refuse(few))
	u, _ := h.next(t, n, changed)
	if got, want := h.endpoints(), "A.1=HEALTHY B.1=HEALTHY"; got != want || len(u.Problems) > 0 {
		t.Errorf("there are %s, want %s; %v", got, want, u.Problems)
	}
}

// TestBasicAuthentication: the password is read anew for each request.
func TestBasicAuthentication(t *testing.T) {
	f := newFake(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	f.breakBy(func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "mesh" || password != "new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(apps("A.1=UP")))
	})
	o := Options{}
	o.Username, o.PasswordFile = "mesh", file
	_, h := start(t, o, f)
	u, n := h.next(t, 0, stale)
	if !strings.Contains(u.Stale, f.URL) || !strings.Contains(u.Stale, "401") {
		t.Errorf("it says %q", u.Stale)
	}
	write("new\n")
	h.next(t, n, synced)
}

// TestStatusDecides: an instance is served by its status alone, whatever was set from outside once.
func TestStatusDecides(t *testing.T) {
	for status, want := range map[string]mesh.Health{
		"UP": mesh.Healthy, "DOWN": mesh.Unhealthy, "OUT_OF_SERVICE": mesh.Draining, "STARTING": mesh.Unready, "UNKNOWN": mesh.Unready,
	} {
		for _, override := range []string{"UNKNOWN", "UP", "DOWN", "OUT_OF_SERVICE"} {
			var in instance
			text := fmt.Sprintf(`{"app": "A", "instanceId": "1", "ipAddr": "10.0.0.1", "status": %q, "overriddenStatus": %q}`, status, override)
			if err := json.Unmarshal([]byte(text), &in); err != nil {
				t.Fatal(err)
			}
			if r, ok := newRecord(byApp, "A", &in); !ok || r.health() != want {
				t.Errorf("status %s, overridden %s: %v, want %v", status, override, r.health(), want)
			}
		}
	}
}
