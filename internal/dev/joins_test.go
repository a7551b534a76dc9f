package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/dev/folder"
	"fairway/internal/identity"
	"fairway/internal/source"
	"fairway/internal/source/memory"
)

// sink gathers the objects of a source.
type sink struct {
	mu      sync.Mutex
	keys    map[config.Key]*config.Object
	changed chan struct{} // holds a token after a change
}

func (s *sink) Apply(u source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range u.Shards {
		for _, k := range shard.Gone.Objects {
			delete(s.keys, k)
		}
		for _, o := range shard.Rows.Objects {
			s.keys[o.Key] = o
		}
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// await waits until there are n objects.
func (s *sink) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(10 * time.Second)
	for len(s.names()) != n {
		select {
		case <-s.changed:
		case <-late:
			t.Fatalf("not %d objects within 10 s, but %v", n, s.names())
		}
	}
}

func (s *sink) names() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.keys {
		out = append(out, string(k.Kind)+" "+k.Name)
	}
	slices.Sort(out)
	return out
}

// world serves joins without a control plane.
func world(t *testing.T, file string) (*httptest.Server, *sink) {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{keys: map[config.Key]*config.Object{}, changed: make(chan struct{}, 1)}
	members := memory.New("joined")
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = members.Run(ctx, s) })
	j := newJoins(plane{
		xds: "127.0.0.1:1", roots: func() []byte { return []byte("roots") },
		token:   func(id identity.ID, _ time.Duration) (string, error) { return "token of " + id.String(), nil },
		settled: func(context.Context) error { return nil },
	}, members, decoder)
	j.say, j.leaving, j.file = t.Logf, ctx, file
	j.restore()
	server := httptest.NewServer(j)
	t.Cleanup(func() {
		stop()
		server.CloseClientConnections()
		server.Close()
		run.Wait()
		j.mu.Lock() // members that are being forgotten are written into the file
		defer j.mu.Unlock()
	})
	return server, s
}

func join(t *testing.T, at *httptest.Server, text string) (body io.Closer, out folder.Welcome, refusal string) {
	t.Helper()
	answer, err := http.Post(at.URL, "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		all, _ := io.ReadAll(answer.Body)
		return answer.Body, out, strings.TrimSpace(string(all))
	}
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return answer.Body, out, ""
}

func TestHostileWorkloads(t *testing.T) {
	at, s := world(t, filepath.Join(t.TempDir(), "members"))
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprint("l", i)] = "x"
	}
	labels, _ := json.Marshal(many)
	for _, c := range []struct{ text, want string }{
		{`{`, "unexpected end of JSON input"},
		{`{"name":"Web","port":1,"protocol":"HTTP"}`, `--name "Web": want lower-case letters`},
		{`{"name":"../x","port":1,"protocol":"HTTP"}`, "--name"},
		{`{"name":"` + strings.Repeat("a", 51) + `","port":1,"protocol":"HTTP"}`, "at most 50"},
		{`{"name":"web","protocol":"HTTP"}`, "an application has a port"},
		{`{"name":"web","gateway":true,"port":1}`, "a gateway has none"},
		{`{"name":"web","port":70000}`, "cannot unmarshal number 70000"},
		{`{"name":"web","port":1,"protocol":"NONSENSE"}`, "NONSENSE"},
		{`{"name":"web","port":1,"protocol":"HTTP","labels":` + string(labels) + `}`, "--label: 40 labels, want at most 32"},
		{`{"name":"web","port":1,"protocol":"HTTP","labels":{"a b":"x"}}`, "a b"},
		{`{"name":"web","port":1,"protocol":"HTTP","upstreams":[{"host":"a b","port":5,"protocol":"TCP"}]}`, "a b"},
		{`{"name":"` + strings.Repeat("a", folder.MostQuestion) + `"}`, "request body too large"},
	} {
		if _, _, refusal := join(t, at, c.text); !strings.Contains(refusal, c.want) {
			t.Errorf("%.80s: %q, want %q", c.text, refusal, c.want)
		}
	}
	if left := s.names(); len(left) != 0 {
		t.Errorf("refused workloads left %v", left)
	}
}

// TestPlaces: workloads of one name get numbers, addresses of their own and one ServiceEntry, and leave with their connections.
func TestPlaces(t *testing.T) {
	at, s := world(t, filepath.Join(t.TempDir(), "members"))
	const web = `{"name":"web","port":8080,"protocol":"HTTP","labels":{"version":"v1"},` +
		`"upstreams":[{"host":"db","port":5432,"protocol":"TCP"}]}`
	one, first, _ := join(t, at, web)
	_, second, _ := join(t, at, web)
	if first.Workload != "web-1" || second.Workload != "web-2" || first.Address == second.Address {
		t.Fatalf("%+v, %+v", first, second)
	}
	if first.Token != "token of spiffe://cluster.local/ns/default/sa/web" || first.Labels[workloadLabel] != "web-1" ||
		first.Labels["version"] != "v1" || first.Labels["app"] != "web" {
		t.Errorf("%+v", first)
	}
	want := []string{"ServiceEntry web", "Sidecar web-1", "Sidecar web-2", "WorkloadGroup web-1", "WorkloadGroup web-2"}
	if got := s.names(); !slices.Equal(got, want) {
		t.Errorf("objects %v", got)
	}
	one.Close()
	s.await(t, 3)
	if _, third, _ := join(t, at, web); third.Workload != "web-1" || third.Address != first.Address {
		t.Errorf("the free place was not taken: %+v", third)
	}
}

// TestJoiningAgain: after a restart of the control plane a workload has its place, unless another has it.
func TestJoiningAgain(t *testing.T) {
	at, _ := world(t, filepath.Join(t.TempDir(), "members"))
	again := `{"name":"web","port":8080,"protocol":"HTTP","was":{"workload":"web-7","address":"127.77.0.9","inbound":4,"outbound":5}}`
	_, got, _ := join(t, at, again)
	if got.Workload != "web-7" || got.Address != "127.77.0.9" || got.Inbound != 4 || got.Outbound != 5 {
		t.Errorf("%+v", got)
	}
	if _, got, _ = join(t, at, again); got.Workload != "web-1" {
		t.Errorf("a place was given away twice: %+v", got)
	}
	for _, was := range []string{
		`{"workload":"other-1","address":"127.77.0.10"}`, `{"workload":"web-9","address":"192.0.2.1"}`,
		`{"workload":"web-x","address":"127.77.0.10"}`,
	} {
		if _, got, _ = join(t, at, `{"name":"web","port":8080,"protocol":"HTTP","was":`+was+`}`); got.Address == "192.0.2.1" ||
			!strings.HasPrefix(got.Workload, "web-") || got.Workload == "web-x" {
			t.Errorf("%s: %+v", was, got)
		}
	}
}

// TestTheNextControlPlane has the members of the one before, as long as they may take to come back.
func TestTheNextControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "members")
	at, _ := world(t, file)
	const web = `"name":"web","port":8080,"protocol":"HTTP"`
	_, first, _ := join(t, at, "{"+web+"}")
	_, second, _ := join(t, at, "{"+web+"}")
	at, s := world(t, file)
	s.await(t, 5)
	was, _ := json.Marshal(first.Place)
	if _, again, refusal := join(t, at, "{"+web+`,"was":`+string(was)+"}"); again.Place != first.Place {
		t.Errorf("%+v, %s", again, refusal)
	}
	if _, other, _ := join(t, at, "{"+web+"}"); other.Workload != "web-3" || other.Address == second.Address {
		t.Errorf("the place of one that may come back was given away: %+v", other)
	}
	s.await(t, 7)
	s.await(t, 5)
	want := []string{"ServiceEntry web", "Sidecar web-1", "Sidecar web-3", "WorkloadGroup web-1", "WorkloadGroup web-3"}
	if got := s.names(); !slices.Equal(got, want) {
		t.Errorf("after the patience: %v", got)
	}
}

func TestMostWorkloads(t *testing.T) {
	p := newPlaces()
	for range mostWorkloads {
		if _, err := p.take(folder.Workload{Name: "g", Gateway: true}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.take(folder.Workload{Name: "g", Gateway: true})
	if err == nil || !strings.Contains(err.Error(), "200 workloads have joined") {
		t.Errorf("one more: %v", err)
	}
}

// TestTakenPorts: a workload gets other ports of its address if something listens on the usual ones.
func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", firstAddress, inbound))
	if err != nil {
		t.Skipf("the first address is in use: %v", err)
	}
	defer l.Close()
	at, err := newPlaces().take(folder.Workload{Name: "web"})
	if err != nil || at.Inbound == inbound || at.Inbound == 0 {
		t.Errorf("%+v, %v", at, err)
	}
}
