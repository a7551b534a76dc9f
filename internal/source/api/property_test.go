package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fairway/internal/disk"
	"fairway/internal/source/api"
)

// TestRandomHistories: whatever is put and deleted by HTTP, what the sink holds, what the lists show, what watches have told
// since they began, and what a restart begins with are all what a plain map says.
func TestRandomHistories(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		file := filepath.Join(dir, fmt.Sprint("state", n))
		o := api.Options{Address: local, StateFile: file}
		w := start(t, o)
		defer w.stop()
		want := map[string]string{} // what of it the sink has, by host or key
		services := map[string]map[string]string{}
		type watching struct {
			*watcher
			has map[string]bool
		}
		var watches []*watching
		host := func(name string) string { return name + ".n.svc.cluster.local" }
		render := func(name string) {
			var all []string
			for _, id := range []string{"a", "b", "c"} {
				if ip := services[name][id]; ip != "" {
					all = append(all, ip)
				}
			}
			want[host(name)] = strings.Join(all, " ")
		}
		name := rapid.SampledFrom([]string{"s1", "s2", "s3"})
		id := rapid.SampledFrom([]string{"a", "b", "c"})
		ip := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
		ok := func(got reply, there bool) {
			t.Helper()
			good := got.status == http.StatusOK || got.status == http.StatusCreated
			if good != there || !good && got.status != http.StatusNotFound {
				r.Fatalf("%d %s, want that it is done: %t", got.status, got.body, there)
			}
		}
		instance := func(id, ip string) string { return fmt.Sprintf(`{"id": %q, "addresses": [%q], "port": 80}`, id, ip) }
		r.Repeat(map[string]func(*rapid.T){
			"put a service": func(r *rapid.T) {
				s := name.Draw(r, "name")
				services[s] = map[string]string{}
				var all []string
				for range rapid.IntRange(0, 2).Draw(r, "instances") {
					id, ip := id.Draw(r, "id"), ip.Draw(r, "ip")
					if services[s][id] == "" {
						services[s][id] = ip
						all = append(all, instance(id, ip))
					}
				}
				ok(w.do("PUT", "/v1/services/n/"+s, `{"instances": [`+strings.Join(all, ",")+`]}`), true)
				render(s)
			},
			"put an instance": func(r *rapid.T) {
				s, id, ip := name.Draw(r, "name"), id.Draw(r, "id"), ip.Draw(r, "ip")
				if services[s] == nil {
					services[s] = map[string]string{}
				}
				services[s][id] = ip
				ok(w.do("PUT", "/v1/services/n/"+s+"/instances/"+id, instance(id, ip)), true)
				render(s)
			},
			"delete an instance": func(r *rapid.T) {
				s, id := name.Draw(r, "name"), id.Draw(r, "id")
				_, there := services[s][id]
				ok(w.do("DELETE", "/v1/services/n/"+s+"/instances/"+id, ""), there)
				if delete(services[s], id); there {
					render(s)
				}
			},
			"delete a service": func(r *rapid.T) {
				s := name.Draw(r, "name")
				_, there := services[s]
				ok(w.do("DELETE", "/v1/services/n/"+s, ""), there)
				delete(services, s)
				delete(want, host(s))
			},
			"put a rule": func(r *rapid.T) {
				s := name.Draw(r, "name")
				text := rule("n", s, rapid.SampledFrom([]string{"80", "81"}).Draw(r, "port"))
				ok(w.do("PUT", "/v1/objects/VirtualService/n/"+s, text), true)
				want["VirtualService n/"+s] = text
			},
			"delete a rule": func(r *rapid.T) {
				s := name.Draw(r, "name")
				_, there := want["VirtualService n/"+s]
				ok(w.do("DELETE", "/v1/objects/VirtualService/n/"+s, ""), there)
				delete(want, "VirtualService n/"+s)
			},
			"replace all services": func(r *rapid.T) {
				s, id, ip := name.Draw(r, "name"), id.Draw(r, "id"), ip.Draw(r, "ip")
				for old := range services {
					delete(want, host(old))
				}
				services = map[string]map[string]string{s: {id: ip}}
				render(s)
				ok(w.do("PUT", "/v1/snapshot",
					fmt.Sprintf(`{"services": [{"namespace": "n", "name": %q, "instances": [%s]}]}`, s, instance(id, ip))), true)
			},
			"restart": func(r *rapid.T) {
				for _, one := range watches {
					one.end()
				}
				watches = nil
				w.stop()
				w = start(t, o)
			},
			"watch": func(r *rapid.T) {
				if len(watches) < 2 {
					watches = append(watches, &watching{w.watch(""), map[string]bool{}})
				}
			},
			"": func(r *rapid.T) {
				got := w.sink.content()
				if len(got) != len(want) {
					r.Fatalf("the sink has %v, want %v", got, want)
				}
				for k, v := range want {
					for one := range strings.FieldsSeq(v) {
						if !strings.Contains(got[k], one) {
							r.Fatalf("the sink has %s as %q, want %q", k, got[k], v)
						}
					}
					isRule := strings.Contains(k, "VirtualService")
					if isRule && got[k] != v || !isRule && strings.Count(got[k], "10.0.0.") != strings.Count(v, "10.0.0.") {
						r.Fatalf("the sink has %s as %q, want %q", k, got[k], v)
					}
				}
			},
		})
		listed := map[string]bool{}
		for _, path := range []string{"/v1/services", "/v1/objects"} {
			var page struct{ Items []change }
			if err := json.Unmarshal([]byte(w.do("GET", path, "").body), &page); err != nil {
				r.Fatal(err)
			}
			for _, i := range page.Items {
				listed[i.name()] = true
			}
		}
		if len(listed) != len(want) {
			r.Fatalf("the lists have %v, want %v", listed, want)
		}
		// every watch gets the last change
		ok(w.do("PUT", "/v1/services/n/end", `{}`), true)
		listed["n/end"] = true
		for i, one := range watches {
			for _, c := range one.until(w.Revision()) {
				switch c.Type {
				case "put":
					one.has[c.name()] = true
				case "delete":
					delete(one.has, c.name())
				}
			}
			if diff := cmp.Diff(listed, one.has); diff != "" {
				r.Fatalf("watch %d was told otherwise: %s", i, diff)
			}
			one.end()
		}
		content := w.sink.content()
		w.stop()
		again := start(t, o)
		defer again.stop()
		if diff := cmp.Diff(content, again.sink.content()); diff != "" {
			r.Fatalf("after a restart: %s", diff)
		}
	})
}

// TestManyAtOnce: whatever many clients do at once, the sink, the lists and a restart agree, and every watch ends with that.
func TestManyAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	w := start(t, api.Options{Address: local, StateFile: file})
	has := make([]map[string]uint64, 3) // the revision of each service, as the watches received it
	var watching, changing sync.WaitGroup
	for i := range has {
		has[i] = map[string]uint64{}
		watch := w.watch("")
		watching.Go(func() {
			for {
				c, ok := watch.next()
				if !ok {
					t.Error("a watch ended")
					return
				}
				switch c.Type {
				case "put":
					has[i][c.name()] = c.Revision
				case "delete":
					delete(has[i], c.name())
				}
				if c.name() == "n/end" {
					return
				}
			}
		})
	}
	for client := range 6 {
		changing.Go(func() {
			for i := range 40 {
				method, path, body := "PUT", fmt.Sprintf("/v1/services/n/s%d/instances/c%d", i%4, client), ""
				switch {
				case i%5 == 4:
					method = "DELETE"
				case i%13 == 12:
					method, path = "DELETE", fmt.Sprintf("/v1/services/n/s%d", i%4)
				default:
					body = fmt.Sprintf(`{"addresses": ["10.0.%d.%d"], "port": 80}`, client, i)
				}
				got, err := w.try(method, path, strings.NewReader(body))
				if err != nil || got.status >= 400 && got.status != http.StatusNotFound {
					t.Errorf("%s %s: %d %s %v", method, path, got.status, got.body, err)
				}
			}
		})
	}
	changing.Wait()
	w.want(http.StatusCreated, "PUT", "/v1/services/n/end", `{}`)
	watching.Wait()
	want := map[string]uint64{}
	var page struct{ Items []change }
	if err := json.Unmarshal([]byte(w.do("GET", "/v1/services", "").body), &page); err != nil {
		t.Fatal(err)
	}
	for _, i := range page.Items {
		want[i.name()] = i.Revision
	}
	for _, got := range has {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	before := w.sink.content()
	w.stop()
	again := start(t, api.Options{StateFile: file})
	if diff := cmp.Diff(before, again.waited(t)); diff != "" {
		t.Error(diff)
	}
}

// waited returns the content once the source has handed over what there was at the start.
func (w *world) waited(t testing.TB) map[string]string {
	t.Helper()
	w.sink.says(t, "synced")
	return w.sink.content()
}

// FuzzBodies: whatever a body is, it is refused as a whole or stored as it can be read again.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		reviews, rule("n", "a", "80"), `{"services": [{"namespace": "n", "name": "a", "instances": null}], "objects": ["x"]}`,
		`{"instances": [{"id": "a", "addresses": ["::1"], "ports": [{"number": 1}], "ttl": "1h", "health": "draining"}]}`, `[]`, `null`, "\xff",
	} {
		f.Add(byte(0), []byte(seed))
		f.Add(byte(1), []byte(seed))
		f.Add(byte(2), []byte(seed))
		f.Add(byte(3), []byte(seed))
	}
	s, err := api.New("Memory/test", api.Options{}, slog.New(slog.DiscardHandler), decoder(f))
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "state")
	f.Fuzz(func(t *testing.T, where byte, body []byte) {
		path := [...]string{
			"/v1/services/n/a", "/v1/services/n/a/instances/a", "/v1/objects/VirtualService/n/a", "/v1/snapshot",
		}[where%4]
		before := s.Revision()
		got := api.Ask(s, "PUT", path, body)
		switch {
		case got.Code >= 500:
			t.Fatalf("%d %s", got.Code, got.Body)
		case got.Code >= 400 && s.Revision() != before:
			t.Fatalf("%d, and something has changed", got.Code)
		case got.Code < 300 && where%4 < 1:
			again := api.Ask(s, "PUT", path, api.Ask(s, "GET", path, nil).Body.Bytes())
			if again.Code != http.StatusOK || again.Header().Get("ETag") != got.Header().Get("ETag") {
				t.Fatalf("what is stored is refused, or another: %d %s", again.Code, again.Body)
			}
		}
		if got.Code < 300 {
			if err := api.Rewritten(s, disk.OS, file); err != nil {
				t.Fatal(err)
			}
		}
	})
}
