package api_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/source"
	"fairway/internal/source/api"
	"fairway/internal/source/platform"
	"fairway/test/rig"
)

const reviews = `{"protocol": "http", "port": 80, "instances": [
	{"id": "a", "addresses": ["10.0.0.1"], "port": 8080, "labels": {"version": "v1"}, "locality": "eu/eu-1"},
	{"id": "b", "addresses": ["10.0.0.2"], "port": 8080, "health": "draining"}]}`

// TestServices: a service that was put becomes a host with endpoints; each change of it reaches the sink together with the
// answer.
func TestServices(t *testing.T) {
	w := start(t, api.Options{Address: local})
	created := w.want(http.StatusCreated, "PUT", "/v1/services/shop/reviews", reviews, `"revision":`)
	const host = "reviews.shop.svc.cluster.local"
	if got := w.sink.content()[host]; !strings.Contains(got, "a: 10.0.0.1") || !strings.Contains(got, "b: 10.0.0.2") {
		t.Errorf("the endpoints are %q", got)
	}
	again := w.want(http.StatusOK, "PUT", "/v1/services/shop/reviews", reviews)
	if again.etag() != created.etag() {
		t.Errorf("put again as it is: revision %s, was %s", again.etag(), created.etag())
	}
	got := w.want(http.StatusOK, "GET", "/v1/services/shop/reviews", "", `"namespace":"shop","name":"reviews"`, `"version":"v1"`)
	if got.etag() != created.etag() || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("GET: %v", got.header)
	}
	if got := w.do("GET", "/v1/services/shop/reviews", "", "If-None-Match", created.etag()); got.status != http.StatusNotModified {
		t.Errorf("GET of what is known: %d, want 304", got.status)
	}

	w.want(http.StatusOK, "PUT", "/v1/services/shop/reviews/instances/c", `{"addresses": ["10.0.0.3"], "port": 8080}`)
	w.want(http.StatusOK, "DELETE", "/v1/services/shop/reviews/instances/a", "")
	if got := w.sink.content()[host]; strings.Contains(got, "10.0.0.1") || !strings.Contains(got, "c: 10.0.0.3") {
		t.Errorf("the endpoints are %q", got)
	}
	// what says nothing of instances leaves them
	w.want(http.StatusOK, "PUT", "/v1/services/shop/reviews", `{"protocol": "grpc", "port": 81}`)
	if got := w.sink.content()[host]; !strings.Contains(got, "c: 10.0.0.3") {
		t.Errorf("the endpoints are %q", got)
	}
	w.want(http.StatusOK, "PUT", "/v1/services/shop/reviews", `{"port": 81, "instances": []}`)
	if got, there := w.sink.content()[host]; !there || got != "" {
		t.Errorf("without instances: %q, %t", got, there)
	}
	w.want(http.StatusOK, "DELETE", "/v1/services/shop/reviews", "")
	w.want(http.StatusNotFound, "GET", "/v1/services/shop/reviews", "", "services/shop/reviews is not there")
	if got := w.sink.content(); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
	// an instance alone makes its service
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/ratings/instances/1", `{"addresses": ["10.0.0.9"], "port": 9080}`)
	if got := w.sink.content()["ratings.shop.svc.cluster.local"]; !strings.Contains(got, "10.0.0.9") {
		t.Errorf("the endpoints are %q", got)
	}
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/named", `{"host": "named.example.com", "instances": [
		{"id": "1", "addresses": ["backend.example.com"], "ports": [{"name": "http", "number": 80}]}]}`)
	if _, there := w.sink.content()["named.example.com"]; !there {
		t.Errorf("there is %v", w.sink.content())
	}
	if s := w.Stats(); s.Objects != 2 || s.LastChange.IsZero() {
		t.Errorf("%+v", s)
	}
}

// TestObjects: rules are stored as they are written; an invalid rule is refused with its field, its line and what would be
// right.
func TestObjects(t *testing.T) {
	w := start(t, api.Options{Address: local})
	const path = "/v1/objects/VirtualService/shop/reviews"
	text := rule("shop", "reviews", "80")
	w.want(http.StatusCreated, "PUT", path, text)
	if got := w.do("GET", path, ""); got.body != text || got.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("GET: %q, %v", got.body, got.header)
	}
	before := w.sink.content()
	w.want(http.StatusUnprocessableEntity, "PUT", path, strings.ReplaceAll(text, "http:", "htpp:"), "spec.htpp", `"line":4`)
	w.want(http.StatusUnprocessableEntity, "PUT", path, rule("shop", "reviews", "70000"), "port")
	w.want(http.StatusUnprocessableEntity, "PUT", path, rule("other", "reviews", "80"), "VirtualService other/reviews, the path says")
	w.want(http.StatusUnprocessableEntity, "PUT", path, text+"---\n"+text, "holds 2 objects")
	w.want(http.StatusUnprocessableEntity, "PUT", path, "", "holds 0 objects")
	const secret = "apiVersion: v1\nkind: Secret\n"
	w.want(http.StatusUnprocessableEntity, "PUT", "/v1/objects/Secret/shop/s", secret, "not a kind that is taken here")
	w.want(http.StatusUnprocessableEntity, "PUT", path, "kind: [", "refused")
	w.want(http.StatusBadRequest, "PUT", path, text+"# \xff", "UTF-8")
	if diff := cmp.Diff(before, w.sink.content()); diff != "" {
		t.Errorf("what was refused changed something: %s", diff)
	}
	asJSON := `{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "s", "namespace": "shop"},
		"spec": {"egress": [{"hosts": ["./*"]}]}}`
	w.want(http.StatusCreated, "PUT", "/v1/objects/Sidecar/shop/s", asJSON)
	if got := w.do("GET", "/v1/objects/Sidecar/shop/s", ""); got.body != asJSON || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("GET: %q, %v", got.body, got.header)
	}
	w.want(http.StatusOK, "GET", "/v1/objects", "", `"kind":"Sidecar"`, `"kind":"VirtualService"`)
	if got := w.do("GET", "/v1/objects?kind=Sidecar", ""); strings.Contains(got.body, "VirtualService") {
		t.Errorf("of one kind: %s", got.body)
	}
	w.want(http.StatusOK, "DELETE", path, "")
	w.want(http.StatusNotFound, "DELETE", path, "")
	if got := w.sink.content(); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// TestRefusals: each answer that is none says what would be right, and changes nothing.
func TestRefusals(t *testing.T) {
	w := start(t, api.Options{Address: local, MaxServices: 1, MaxInstances: 3, MaxObjects: 1, MaxBody: 1})
	there := w.want(http.StatusCreated, "PUT", "/v1/services/shop/reviews", reviews)
	w.want(http.StatusCreated, "PUT", "/v1/objects/VirtualService/shop/reviews", rule("shop", "reviews", "80"))
	before := w.sink.content()
	one := func(more string) string {
		return `{"instances": [{"id": "a", "addresses": ["10.0.0.1"], "port": 1` + more + `}]}`
	}
	const service = "/v1/services/shop/reviews"
	for _, c := range []struct {
		name         string
		status       int
		method, path string
		body         string
		headers      string // name=value
		word         string
	}{
		{"no JSON", 400, "PUT", service, `{`, "", "cannot be read"},
		{"empty", 400, "PUT", service, ``, "", "the body is empty"},
		{"two values", 400, "PUT", service, `{} {}`, "", "something follows"},
		{"unknown field", 400, "PUT", service, `{"prot": "http"}`, "", `unknown field \"prot\"`},
		{"unknown field of an instance", 400, "PUT", service, one(`, "zone": "x"`), "", `instances[0]: json: unknown field \"zone\"`},
		{"no UTF-8", 400, "PUT", service, "{\"protocol\": \"\xff\"}", "", "UTF-8"},
		{"another name", 400, "PUT", service, `{"name": "ratings"}`, "", `name: the body says \"ratings\", the path \"reviews\"`},
		{"no name", 400, "PUT", "/v1/services/shop/%2e%2e", `{}`, "", "name"},
		{"a slash", 400, "PUT", "/v1/services/shop/a%2Fb", `{}`, "", "name"},
		{"no host", 422, "PUT", "/v1/services/shop/a%20b", `{}`, "", "is not a host"},
		{"no namespace", 422, "PUT", "/v1/services/a.b/c", `{}`, "", "is not a namespace"},
		{"no such port", 422, "PUT", service, `{"port": 70000}`, "", "65535"},
		{"no such host", 422, "PUT", service, `{"host": "*.example.com"}`, "", "is not a host"},
		{"no such export", 422, "PUT", service, `{"exportTo": ["a b"]}`, "", "exportTo"},
		{"no address", 422, "PUT", service, `{"instances": [{"id": "a", "port": 1}]}`, "", "no address"},
		{"no such address", 422, "PUT", service, `{"instances": [{"id": "a", "addresses": ["a b"], "port": 1}]}`, "", "want an IP"},
		{"no port", 422, "PUT", service, `{"instances": [{"id": "a", "addresses": ["10.0.0.1"]}]}`, "", "for a port"},
		{"both ports", 422, "PUT", service, one(`, "ports": [{"number": 2}]`), "", "give one of them"},
		{"no health", 422, "PUT", service, one(`, "health": "ill"`), "", "healthy, unhealthy or draining"},
		{"no locality", 422, "PUT", service, one(`, "locality": "a/b/c/d"`), "", "region/zone/subzone"},
		{"no TTL", 422, "PUT", service, one(`, "ttl": "1ms"`), "", "as 30s"},
		{"no ID", 422, "PUT", service, `{"instances": [{"addresses": ["10.0.0.1"], "port": 1}]}`, "", "an instance is called"},
		{"an ID twice", 422, "PUT", service, `{"instances": [{"id": "a"}, {"id": "a"}]}`, "", "is there twice"},
		{"many ports", 400, "PUT", service, one(`, "ports": [` + strings.Repeat(`{},`, 100) + `{}]`), "", "more than 100"},
		{"large", 413, "PUT", service, strings.Repeat(" ", 1<<20+1), "", "maxBodyMiB"},
		{"another ID", 400, "PUT", service + "/instances/x", `{"id": "y"}`, "", "the body says"},
		{"too many services", 507, "PUT", "/v1/services/shop/ratings", `{}`, "", "maxServices"},
		{"too many objects", 507, "PUT", "/v1/objects/VirtualService/shop/a", rule("shop", "a", "80"), "", "maxObjects"},
		{"not there", 404, "DELETE", "/v1/services/shop/ratings", "", "", "is not there"},
		{"no instance", 404, "DELETE", service + "/instances/zz", "", "", "has no instance"},
		{"no page", 404, "GET", "/v1/nothing", "", "", ""},
		{"no method", 405, "POST", service, "", "", ""},
		{"there already", 412, "PUT", service, "{}", "If-None-Match=*", "is there already"},
		{"another revision", 412, "PUT", service, "{}", `If-Match="7"`, "by now"},
		{"another revision of it all", 412, "PUT", "/v1/snapshot", `{"services": []}`, `If-Match="7"`, "by now"},
		{"not there to match", 412, "PUT", "/v1/services/shop/ratings", "{}", "If-Match=*", "is not there"},
		{"no ETag", 400, "PUT", service, "{}", "If-Match=7", "not an ETag of this server"},
		{"a weak ETag", 400, "PUT", service, "{}", `If-Match=W/"7"`, "not an ETag of this server"},
		{"a condition that is none", 400, "PUT", service, "{}", `If-None-Match="7"`, "want *"},
		{"an empty snapshot", 400, "PUT", "/v1/snapshot", `{}`, "", "neither"},
		{"a snapshot with a mistake", 422, "PUT", "/v1/snapshot", `{"services": [{"namespace": "shop", "name": "a b"}]}`, "", "services[0]"},
		{"a snapshot of too many", 507, "PUT", "/v1/snapshot",
			`{"services": [{"namespace": "n", "name": "a"}, {"namespace": "n", "name": "b"}]}`, "", "maxServices"},
		{"a snapshot of lists that are none", 400, "PUT", "/v1/snapshot", `{"services": {}}`, "", "want a list"},
		{"a snapshot with a wrong rule", 422, "PUT", "/v1/snapshot", `{"objects": ["kind: X"]}`, "", "objects[0]"},
		{"a query of no sense", 400, "GET", "/v1/services?since=1", "", "", "not a known parameter"},
		{"a query twice", 400, "GET", "/v1/services?limit=1&limit=2", "", "", "twice"},
		{"a limit that is none", 400, "GET", "/v1/services?limit=-1", "", "", "want a number"},
		{"a watch of the past", 410, "GET", "/v1/watch?since=1", "", "", "watch without since"},
		{"a watch of the future", 410, "GET", "/v1/watch?since=9000000000000000000", "", "", "watch without since"},
		{"a watch of nothing", 400, "GET", "/v1/watch?only=x", "", "", "want services or objects"},
		{"by another name", 403, "GET", service, "", "Host=evil.example.com", "want localhost"},
		{"of a browser", 403, "GET", service, "", "Origin=http://localhost", "browser pages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if name, value, has := strings.Cut(c.headers, "="); has {
				headers = []string{name, value}
			}
			got := w.do(c.method, c.path, c.body, headers...)
			if got.status != c.status || !strings.Contains(got.body, c.word) {
				t.Errorf("%d %q, want %d with %q", got.status, got.body, c.status, c.word)
			}
		})
	}
	if diff := cmp.Diff(before, w.sink.content()); diff != "" {
		t.Errorf("what was refused changed something: %s", diff)
	}
	if got := w.do("GET", service, ""); got.etag() != there.etag() {
		t.Errorf("the service is in revision %s, was in %s", got.etag(), there.etag())
	}
	w.want(http.StatusInsufficientStorage, "PUT", service, `{"port": 80, "instances": [
		{"id":"1","addresses":["10.0.0.1"],"port":1},{"id":"2","addresses":["10.0.0.1"],"port":1},
		{"id":"3","addresses":["10.0.0.1"],"port":1},{"id":"4","addresses":["10.0.0.1"],"port":1}]}`, "maxInstances")
}

// TestChangesUnderACondition: of many that count up what they have read, under the condition that it is what they read, none
// is lost.
func TestChangesUnderACondition(t *testing.T) {
	w := start(t, api.Options{Address: local})
	const path = "/v1/services/shop/counter"
	w.want(http.StatusCreated, "PUT", path, `{"port": 1}`)
	const clients, each = 8, 15
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for done := 0; done < each; {
				read, err := w.try("GET", path, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				_, after, _ := strings.Cut(read.body, `"port":`)
				n, _ := strconv.Atoi(after[:strings.IndexAny(after, ",}")])
				put, err := w.try("PUT", path, strings.NewReader(fmt.Sprintf(`{"port": %d}`, n+1)), "If-Match", read.etag())
				switch {
				case err != nil || put.status != http.StatusOK && put.status != http.StatusPreconditionFailed:
					t.Errorf("%d %s, %v", put.status, put.body, err)
					return
				case put.status == http.StatusOK:
					done++
				}
			}
		})
	}
	all.Wait()
	w.want(http.StatusOK, "GET", path, "", fmt.Sprintf(`"port":%d`, 1+clients*each))
}

// TestSnapshot: a snapshot replaces services, rules or both at once; anything that is not in it is removed.
func TestSnapshot(t *testing.T) {
	w := start(t, api.Options{Address: local})
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/gone", `{}`)
	stays := w.want(http.StatusCreated, "PUT", "/v1/services/shop/stays", `{"port": 80}`)
	w.want(http.StatusCreated, "PUT", "/v1/objects/VirtualService/shop/a", rule("shop", "a", "80"))
	got := w.want(http.StatusOK, "PUT", "/v1/snapshot", `{"services": [{"namespace": "shop", "name": "stays", "port": 80},
		{"namespace": "shop", "name": "new"}]}`)
	if diff := cmp.Diff(map[string]string{
		"stays.shop.svc.cluster.local": "", "new.shop.svc.cluster.local": "", "VirtualService shop/a": rule("shop", "a", "80"),
	}, w.sink.content()); diff != "" {
		t.Error(diff)
	}
	if now := w.do("GET", "/v1/services/shop/stays", ""); now.etag() != stays.etag() {
		t.Errorf("what stays as it was is in revision %s, was in %s", now.etag(), stays.etag())
	}
	again := w.do("PUT", "/v1/snapshot", `{"objects": [`+strconv.Quote(rule("shop", "b", "80"))+`]}`, "If-Match", got.etag())
	if _, there := w.sink.content()["VirtualService shop/b"]; again.status != http.StatusOK || !there || len(w.sink.content()) != 3 {
		t.Errorf("%d %s: %v", again.status, again.body, w.sink.content())
	}
	w.want(http.StatusUnprocessableEntity, "PUT", "/v1/snapshot",
		`{"services": [{"namespace": "n", "name": "a"}, {"namespace": "n", "name": "a"}]}`, "services[1]: services/n/a is there twice")
	w.want(http.StatusOK, "PUT", "/v1/snapshot", `{"services": [], "objects": []}`)
	if got := w.sink.content(); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

// TestPages: a list that is read page by page has everything once.
func TestPages(t *testing.T) {
	w := start(t, api.Options{Address: local})
	for i := range 25 {
		w.want(http.StatusCreated, "PUT", fmt.Sprintf("/v1/services/n%d/s%02d", i%2, i), `{}`)
	}
	for i := range 25 { // there are holes in the order
		if i%5 == 0 {
			w.want(http.StatusOK, "PUT", fmt.Sprintf("/v1/services/n%d/s%02d", i%2, i), `{"port": 1}`)
		}
	}
	seen, pages := map[string]int{}, 0
	for after, more := uint64(0), true; more; pages++ {
		var page struct {
			Revision, Next uint64
			Items          []struct{ Service api.Service }
		}
		if err := rig.Read(fmt.Sprintf("%s/v1/services?limit=10&after=%d", w.url, after), &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			seen[i.Service.Name]++
		}
		after, more = page.Next, page.Next != 0
	}
	if len(seen) != 25 || pages != 3 {
		t.Errorf("%d pages have %v", pages, seen)
	}
	if got := w.do("GET", "/v1/services?namespace=n1", ""); strings.Count(got.body, `"namespace":"n1"`) != 12 ||
		strings.Contains(got.body, `"n0"`) {
		t.Errorf("of one namespace: %s", got.body)
	}
}

// TestPanicEndsOneRequest: what follows is answered as ever.
func TestPanicEndsOneRequest(t *testing.T) {
	w := start(t, api.Options{Address: local})
	w.sink.mu.Lock()
	w.sink.panics = true
	w.sink.mu.Unlock()
	w.want(http.StatusInternalServerError, "PUT", "/v1/services/shop/a", `{}`, "this page failed")
	w.sink.mu.Lock()
	w.sink.panics = false
	w.sink.mu.Unlock()
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/b", `{}`)
	if got := w.sink.content(); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// TestLeases: an instance with a TTL goes when it is not put again in time, each by its own time, and alone.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, api.Options{})
		defer w.stop() // inside of the bubble
		put := func(id, ttl string) {
			t.Helper()
			in := api.Instance{ID: id, Addresses: []string{"10.0.0.1"}, Port: 80, TTL: ttl}
			if _, err := w.PutInstance("shop", "reviews", in, api.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		has := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got := w.sink.content()["reviews.shop.svc.cluster.local"]
			for _, id := range []string{"a", "b", "c"} {
				if strings.Contains(got, id+": ") != strings.Contains(strings.Join(want, " "), id) {
					t.Errorf("after %s there is %q, want %q", time.Now().Format("05"), got, want)
				}
			}
		}
		synctest.Wait()
		put("a", "10s")
		put("b", "20s")
		put("c", "")
		revision := w.Revision()
		time.Sleep(9 * time.Second)
		put("a", "10s") // as it was: nothing but its time changes
		if w.Revision() != revision {
			t.Errorf("putting an instance again as it was is a change")
		}
		time.Sleep(9 * time.Second)
		has("a", "b", "c")
		time.Sleep(time.Second)
		has("b", "c")
		time.Sleep(time.Second)
		has("c")
		put("a", "10s")
		put("a", "") // stays from now on
		time.Sleep(time.Hour)
		has("a", "c")

		// a service that is put whole begins the time of all its instances
		all := api.Instances{{ID: "a", Addresses: []string{"10.0.0.1"}, Port: 80, TTL: "10s"}}
		for range 5 {
			if _, err := w.PutService(api.Service{Namespace: "shop", Name: "reviews", Instances: all}, api.Condition{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
		}
		has("a")
		// one that says nothing of them does not
		if _, err := w.PutService(api.Service{Namespace: "shop", Name: "reviews", Port: 1}, api.Condition{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		has()
	})
}

// TestAwaitsASnapshot: nothing counts as all there is before somebody has said it.
func TestAwaitsASnapshot(t *testing.T) {
	w := start(t, api.Options{Address: local, AwaitSnapshot: true})
	w.want(http.StatusCreated, "PUT", "/v1/services/shop/a", `{}`)
	w.sink.mu.Lock()
	if len(w.sink.standing) != 0 {
		t.Errorf("it says %v", w.sink.standing)
	}
	w.sink.mu.Unlock()
	w.want(http.StatusOK, "PUT", "/v1/snapshot", `{"services": []}`)
	w.sink.says(t, "synced")
}

// TestSnapshotsGoOnInParts: of as many rows as one turn takes in, each once the one before is in force.
func TestSnapshotsGoOnInParts(t *testing.T) {
	w := start(t, api.Options{Address: local})
	var all []string
	for i := range 1200 {
		all = append(all, fmt.Sprintf(`{"namespace":"shop","name":"s-%d","instances":[{"id":"a","addresses":["10.0.0.1"],"port":80}]}`, i))
	}
	w.want(http.StatusOK, "PUT", "/v1/snapshot", `{"services": [`+strings.Join(all, ",")+`]}`)
	if n := len(w.sink.content()); n != 1200 {
		t.Errorf("there are %d services", n)
	}
	w.want(http.StatusOK, "PUT", "/v1/snapshot", `{"services": []}`)
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if w.sink.most > source.PieceRows {
		t.Errorf("%d rows are handed on at once, want at most %d", w.sink.most, source.PieceRows)
	}
}

// TestAddressTaken: the mesh has the stored state at once, and the API starts once the address is free.
func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	at := taken.Addr().String()
	s, err := api.New("Memory/test", api.Options{Address: at}, slog.New(slog.DiscardHandler), decoder(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutService(api.Service{Namespace: "shop", Name: "a"}, api.Condition{}); err != nil {
		t.Fatal(err)
	}
	w := run(t, s, api.Options{})
	w.sink.says(t, "stale: its API is not served: listen tcp "+at)
	if got := w.sink.content(); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
	taken.Close()
	w.sink.says(t, "fresh")
	if got, err := s.Addr(t.Context()); err != nil || got != at {
		t.Errorf("%s, %v", got, err)
	}
}

// TestRunsOnceAtATime: and again once that has ended, with all that was put meanwhile.
func TestRunsOnceAtATime(t *testing.T) {
	w := start(t, api.Options{Address: local})
	if err := w.Run(t.Context(), newMirror()); !errors.Is(err, api.ErrRunning) {
		t.Errorf("a second Run: %v", err)
	}
	w.stop()
	if _, err := w.PutService(api.Service{Namespace: "shop", Name: "a"}, api.Condition{}); err != nil {
		t.Fatal(err)
	}
	again := run(t, w.Source, api.Options{Address: local})
	if got := again.sink.content(); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// TestOptions: every mistake names its field.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    api.Options
		word string
	}{
		{api.Options{Address: "nowhere"}, "address: "},
		{api.Options{Address: "0.0.0.0:1", CertFile: "c", KeyFile: "k"}, "tokenFile: other machines"},
		{api.Options{Address: ":1", CertFile: "c", KeyFile: "k"}, "tokenFile: other machines"},
		{api.Options{Address: "10.0.0.1:1", TokenFile: "t"}, "certFile, keyFile: other machines"},
		{api.Options{Address: "127.0.0.1:1", CertFile: "c"}, "one of them alone"},
		{api.Options{Address: "127.0.0.1:1", ClientCAFile: "c"}, "clientCAFile: "},
		{api.Options{TokenFile: "t"}, "nothing is served"},
		{api.Options{MaxServices: -1}, "maxServices: "},
		{api.Options{MaxState: 1 << 40}, "maxStateMiB: "},
		{api.Options{MaxWatches: 1000}, "maxWatches: "},
		{api.Options{Naming: platform.Naming{Host: "{nam}"}}, "host: "},
	} {
		err := c.o.Validate()
		if err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.word)
		}
		if _, err := api.New("m", c.o, slog.New(slog.DiscardHandler), decoder(t)); err == nil {
			t.Errorf("%+v: New takes it", c.o)
		}
	}
	for _, o := range []api.Options{
		{}, {Address: "localhost:0"}, {Address: "[::1]:0"}, {Address: ":1", CertFile: "c", KeyFile: "k", TokenFile: "t"},
		{Address: "0.0.0.0:1", CertFile: "c", KeyFile: "k", ClientCAFile: "a"},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestPageNamesOptions: the page has every option by its name in the file.
func TestPageNamesOptions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "registries", "memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{api.Options{}, api.Service{}, api.Instance{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/registries/memory.md does not name `%s`", name)
			}
		}
	}
}
