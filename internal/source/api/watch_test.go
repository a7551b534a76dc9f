package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/source/api"
	"fairway/test/rig"
)

// told are changes, a line each.
func told(all []change) (out []string) {
	for _, c := range all {
		out = append(out, strings.TrimSpace(c.Type+" "+c.name()))
	}
	return out
}

// TestWatch: a new client gets everything, and then each change; a client that comes back gets the changes it missed,
// including removals.
func TestWatch(t *testing.T) {
	w := start(t, api.Options{Address: local})
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/a", `{}`)
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/gone", `{}`)
	w.want(http.StatusCreated, "PUT", "/v1/objects/VirtualService/shop/v", rule("shop", "v", "80"))
	w.want(http.StatusOK, "DELETE", "/v1/services/shop/gone", "")

	first := w.watch("")
	got := first.until(w.Revision())
	if diff := cmp.Diff([]string{"put shop/a", "put VirtualService/shop/v", "mark"}, told(got)); diff != "" {
		t.Error(diff)
	}
	if got[1].Object.Text != rule("shop", "v", "80") {
		t.Errorf("the rule is %q", got[1].Object.Text)
	}
	left := got[len(got)-1].Revision
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/b", `{"port": 1}`)
	if c, ok := first.next(); !ok || c.name() != "shop/b" || c.Service.Port != 1 || c.Revision != w.Revision() {
		t.Errorf("%+v, %t", c, ok)
	}
	first.end()

	w.want(http.StatusOK, "PUT", "/v1/services/shop/b", `{"port": 2}`)
	w.want(http.StatusOK, "DELETE", "/v1/services/shop/a", "")
	w.want(http.StatusOK, "DELETE", "/v1/objects/VirtualService/shop/v", "")
	back := w.watch(fmt.Sprintf("?since=%d", left))
	got = back.until(w.Revision())
	got = append(got, back.until(w.Revision())...)
	want := []string{"put shop/b", "delete shop/a", "delete VirtualService/shop/v", "mark"}
	if diff := cmp.Diff(want, told(got)); diff != "" {
		t.Error(diff)
	}
	rules := w.watch(fmt.Sprintf("?only=objects&kind=VirtualService&since=%d", left))
	if got := rules.until(w.Revision()); !cmp.Equal([]string{"delete VirtualService/shop/v"}, told(got)) {
		t.Errorf("of rules alone: %q", told(got))
	}
}

// TestWatchesEndWithTheSource: none keeps it from ending.
func TestWatchesEndWithTheSource(t *testing.T) {
	w := start(t, api.Options{Address: local})
	watch := w.watch("")
	watch.until(w.Revision())
	w.stop()
	if c, ok := watch.next(); ok {
		t.Errorf("it tells %+v", c)
	}
}

// TestWatchOfWhatIsForgotten: a client that was away for longer than deletions are remembered is informed of that.
func TestWatchOfWhatIsForgotten(t *testing.T) {
	w := start(t, api.Options{Address: local})
	since := w.Revision()
	const remembered = 10_000 // removals
	for i := range remembered + 1 {
		name := fmt.Sprint("s", i)
		if _, err := w.PutService(api.Service{Namespace: "n", Name: name}, api.Condition{}); err != nil {
			t.Fatal(err)
		}
		if i == remembered-1 {
			w.watch(fmt.Sprintf("?since=%d", since)).end() // all is known so far
		}
		if _, err := w.DeleteService("n", name, api.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	w.want(http.StatusGone, "GET", fmt.Sprintf("/v1/watch?since=%d", since), "", "not known any more")
	all := w.watch("")
	if got := all.until(w.Revision()); len(got) != 1 || got[0].Type != "mark" {
		t.Errorf("without since: %v", told(got))
	}
}

// idle opens a watch and does not read it; the source waits that long for the client.
func idle(t *testing.T, patient time.Duration) (*world, net.Conn) {
	t.Helper()
	s, err := api.New("Memory/test", api.Options{Address: local}, slog.New(slog.DiscardHandler), decoder(t))
	if err != nil {
		t.Fatal(err)
	}
	api.Patient(s, patient)
	w := run(t, s, api.Options{Address: local})
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
	return w, c
}

// large puts services which no socket holds: 30 MB, in four versions each.
func large(t *testing.T, w *world, services int) {
	t.Helper()
	labels := map[string]string{}
	for i := range 90 {
		labels[fmt.Sprint("l", i)] = strings.Repeat("x", 500)
	}
	for i := range 4 * services {
		s := api.Service{Namespace: "n", Name: fmt.Sprint("s", i%services)}
		for n := range 4 {
			s.Instances = append(s.Instances, api.Instance{ID: fmt.Sprint(i, n), Addresses: []string{"10.0.0.1"}, Port: 80, Labels: labels})
		}
		if _, err := w.PutService(s, api.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowWatch: a client that does not read for a while misses only versions in between, and delays nothing else.
func TestSlowWatch(t *testing.T) {
	w, c := idle(t, time.Hour)
	const services = 40
	reader := bufio.NewReader(c)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	large(t, w, services)
	w.want(http.StatusCreated, "PUT", "/v1/services/n/last", `{}`)
	last := fmt.Sprintf(`"revision":%d`, w.Revision())
	seen := map[string]bool{}
	for !seen["n/last"] {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		for i := range services {
			if strings.Contains(line, fmt.Sprintf(`"name":"s%d",`, i)) {
				seen[fmt.Sprint("s", i)] = true
			}
		}
		seen["n/last"] = seen["n/last"] || strings.Contains(line, last) && strings.Contains(line, `"name":"last"`)
	}
	if len(seen) != services+1 {
		t.Errorf("%d services were told, want %d and the last", len(seen), services)
	}
}

// TestIdleWatchIsCut: who takes nothing at all loses the connection, and its place.
func TestIdleWatchIsCut(t *testing.T) {
	w, c := idle(t, 50*time.Millisecond)
	large(t, w, 40)
	w.want(http.StatusCreated, "PUT", "/v1/services/n/last", `{}`)
	rig.Eventually(t, func() error {
		if n := api.Watches(w.Source); n != 0 {
			return fmt.Errorf("%d watches are open", n)
		}
		return nil
	})
	got, _ := io.ReadAll(c) // until it was cut
	if strings.Contains(string(got), `"name":"last"`) {
		t.Error("it was told everything")
	}
}

// TestWatchesAreBounded: those of one address too; one that ends makes room.
func TestWatchesAreBounded(t *testing.T) {
	w := start(t, api.Options{Address: local, MaxWatches: 3})
	var open []*watcher
	for range 3 {
		one := w.watch("")
		one.until(w.Revision())
		open = append(open, one)
	}
	got := w.want(http.StatusServiceUnavailable, "GET", "/v1/watch", "", "too many watches")
	if got.header.Get("Retry-After") == "" {
		t.Errorf("it does not say when to come again: %v", got.header)
	}
	w.want(http.StatusCreated, "PUT", "/v1/services/n/a", `{}`) // others are answered
	open[0].end()
	rig.Eventually(t, func() error {
		if n := api.Watches(w.Source); n != 2 {
			return fmt.Errorf("%d watches are open", n)
		}
		return nil
	})
	w.watch("").until(w.Revision())
}
