package zookeeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

func TestParseProvider(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{
			"dubbo%3A%2F%2F10.0.0.1%3A20880%2Fcom.A%3Fapplication%3Dx%26group%3Dg%26version%3D1.0%26weight%3D5%26timestamp%3D9",
			"dubbo/10.0.0.1:20880/g/1.0 w5 application=x,group=g,protocol=dubbo,version=1.0 9",
		},
		{
			"tri%3A%2F%2F%5Bfd00%3A%3A1%5D%3A50051%2Fcom.A%3Fenv%3Dtest%26methods%3Da%2Cb",
			"tri/[fd00::1]:50051 w100 env=test,protocol=tri 0",
		},
		{
			"dubbo://host.example:1/com.A?topology.istio.io/network=n&disabled=true",
			"dubbo/host.example:1 off w100 protocol=dubbo,topology.istio.io/network=n 0",
		},
		{"empty%3A%2F%2F10.0.0.1%2Fcom.A", "it names no provider"},
		{"dubbo%3A%2F%2F10.0.0.1%2Fcom.A", "it names no port"},
		{"dubbo%3A%2F%2F10.0.0.1%3A99999%2Fcom.A", `its port is "99999"`},
		{"dubbo%3A%2F%2F10.0.0.1%3A1%2Fcom.A%3Fweight%3D-3", `its weight is "-3", which is not a number`},
		{"%zz", "it is not a URL"},
		{"%FF%FE", "it is not a URL"},
		{"plain", "it is not a URL; want dubbo://host:port/interface"},
		{strings.Repeat("a", maxName+1), "it has 65537 bytes; want at most 65536"},
	} {
		p, err := parseProvider(c.name, []string{"env"})
		got := fmt.Sprint(err)
		if err == nil {
			off := ""
			if p.Off {
				off = " off"
			}
			got = fmt.Sprintf("%s%s w%d %s %d", p.id(), off, p.Weight, p.Labels, p.Stamp)
		}
		if got != c.want {
			t.Errorf("%.60s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestOneReadOfANode: a node that is wanted while it is being read is read again afterwards, and not at the same time: the older answer
// could come last.
func TestOneReadOfANode(t *testing.T) {
	tr := newTree("ZooKeeper/test", Options{}.filled())
	tr.begin()
	path := tr.next()
	tr.want(path)
	for other := tr.next(); other != ""; other = tr.next() {
		if other == path {
			t.Fatalf("%s is to be read twice at once", path)
		}
		tr.done(other)
	}
	if tr.done(path); tr.next() != path {
		t.Errorf("%s, which changed while it was read, is not read again", path)
	}
	if tr.done(path); tr.next() != "" {
		t.Error("something is read once more")
	}
	tr.want(path)
	tr.next()
	if tr.begin(); tr.next() != path {
		t.Error("another session does not begin with the first node")
	}
}

func FuzzNodes(f *testing.F) {
	f.Add("dubbo%3A%2F%2F10.0.0.1%3A20880%2Fcom.A%3Fapplication%3Dx%26weight%3D5")
	f.Add("override%3A%2F%2F0.0.0.0%2Fcom.A%3Fweight%3D5%26disabled%3Dtrue")
	f.Add(`{"name":"a","address":"10.0.0.1","port":1,"payload":{"metadata":{"dubbo.endpoints":"[{\"port\":1,\"protocol\":\"dubbo\"}]"}}}`)
	f.Add(`{"app":"a","services":{"a":{"name":"a","group":"g"}}}`)
	to := newTranslators("ZooKeeper/fuzz", Options{}.filled())
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseProvider(text, nil); err == nil {
			shards, _ := to.offered("com.example.A", []place{p, p})
			for _, s := range shards {
				for _, sl := range s.Rows.Slices {
					if len(sl.Endpoints) != 1 {
						t.Fatalf("%d endpoints of one provider", len(sl.Endpoints))
					}
				}
			}
		}
		_, _, _ = parseOverride(text)
		if in, err := parseInstance([]byte(text), nil); err == nil {
			to.application("a", in.places)
			if len(in.places) == 0 {
				t.Fatal("an instance that is nowhere")
			}
		}
		_, _ = parseMetadata([]byte(text))
	})
}

// list takes the children of a node into a tree, as an answer does.
func (t *tree) list(path string, now time.Time, names ...string) error {
	return t.take(answer{path: path, begun: now, names: names})
}

// parts are what shards are left after changes, with their endpoints.
func parts(into map[string]int, shards []source.Shard) string {
	for _, s := range shards {
		delete(into, s.Key.Part)
		for _, sl := range s.Rows.Slices {
			into[s.Key.Part] += len(sl.Endpoints)
		}
	}
	var out []string
	for part, n := range into {
		out = append(out, fmt.Sprint(part, ":", n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestNewSession: what another session saw is kept for a while where the next does not find it, and goes at once where a watch of
// one session says so.
func TestNewSession(t *testing.T) {
	now := time.Unix(1000, 0)
	o := Options{Servers: []string{"a"}, ApplicationRoot: none, Missing: platform.Missing{KeepMissing: "10s"}}.filled()
	tr, have := newTree("ZooKeeper/one", o), map[string]int{}
	var missing []mesh.Problem
	url := func(i int) string { return fmt.Sprintf("dubbo://10.0.0.%d:1/x", i) }
	step := func(name, want string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		shards, problems := tr.changes()
		if got := parts(have, shards); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		missing = problems[placeMissing]
	}
	read := func(a ...string) func() error {
		return func() error {
			if err := tr.list("/dubbo", now, "a", "b"); err != nil {
				return err
			}
			for _, n := range []string{"/dubbo/a/configurators", "/dubbo/b/configurators", "/dubbo/mapping"} {
				if err := tr.list(n, now); err != nil {
					return err
				}
			}
			if err := tr.list("/dubbo/b/providers", now, url(9)); err != nil {
				return err
			}
			return tr.list("/dubbo/a/providers", now, a...)
		}
	}
	tr.begin()
	step("half of it", "", func() error { return tr.list("/dubbo", now, "a", "b") })
	step("all of it", "/a:2 /b:1", read(url(1), url(2)))
	step("a watch", "/a:1 /b:1", func() error { return tr.list("/dubbo/a/providers", now, url(1)) })
	step("another watch", "/a:2 /b:1", func() error { return tr.list("/dubbo/a/providers", now, url(1), url(2)) })
	tr.begin()
	step("a new session, and nothing is there", "/a:2 /b:1", func() error { return tr.list("/dubbo", now) })
	step("nor here", "/a:2 /b:1", func() error { return tr.list("/dubbo/a/providers", now) })
	// /a, /b, and the providers of /a
	if len(missing) != 1 || !strings.HasPrefix(missing[0].Message, "nodes are missing from the registry's list (4)") {
		t.Errorf("it says %v", missing)
	}
	now = now.Add(5 * time.Second)
	step("one is there again", "/a:2 /b:1", func() error { return tr.list("/dubbo", now, "a") })
	step("and a provider", "/a:2 /b:1", func() error { return tr.list("/dubbo/a/providers", now, url(1)) })
	now = now.Add(6 * time.Second)
	step("the others' time is over", "/a:1", func() error { tr.expire(now); return nil })
	if len(missing) > 0 {
		t.Errorf("in the end it says %v", missing)
	}
	if tr.holding != 0 || tr.places != 1 || tr.nodes["/dubbo/b/providers"] != nil {
		t.Errorf("left: %d held, %d places, nodes %v", tr.holding, tr.places, tr.nodes)
	}
}

// TestMissingGoInTheirOwnTime: of things that are missing since different times, each goes when its own time is over.
func TestMissingGoInTheirOwnTime(t *testing.T) {
	begun := time.Unix(1000, 0)
	o := Options{Servers: []string{"a"}, ApplicationRoot: none, Missing: platform.Missing{KeepMissing: "10s"}}.filled()
	tr, have := newTree("ZooKeeper/one", o), map[string]int{}
	const url = "dubbo://10.0.0.1:1/x"
	read := func(after time.Duration, names ...string) {
		t.Helper()
		now := begun.Add(after)
		tr.begin()
		if err := tr.list("/dubbo", now, names...); err != nil {
			t.Fatal(err)
		}
		for path, n := range tr.nodes {
			var all []string
			if n.kind == providers && slices.Contains(names, n.of) {
				all = []string{url}
			}
			if path != "/dubbo" {
				if err := tr.list(path, now, all...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	read(0, "a", "b", "c")
	read(1*time.Second, "b", "c")
	read(5*time.Second, "c")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{9 * time.Second, "/a:1 /b:1 /c:1"}, {11 * time.Second, "/b:1 /c:1"}, {14 * time.Second, "/b:1 /c:1"}, {15 * time.Second, "/c:1"},
	} {
		tr.expire(begun.Add(step.after))
		shards, _ := tr.changes()
		if got := parts(have, shards); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
	if tr.holding != 0 {
		t.Errorf("%d are held", tr.holding)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Servers: []string{"zk1:2181", "zk2"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]Options{
		"servers: there are 0":  {},
		"servers[0]":            {Servers: []string{"http://a:1"}},
		"chroot":                {Servers: good.Servers, Chroot: "a/../b"},
		"interfaceRoot, appl":   {Servers: good.Servers, InterfaceRoot: none, ApplicationRoot: none},
		"certFile, keyFile":     {Servers: good.Servers, TLS: true, CertFile: "a"},
		"tls: it is false":      {Servers: good.Servers, CAFile: "a"},
		"username, passwordF":   {Servers: good.Servers, Username: "a"},
		"concurrency: 1000":     {Servers: good.Servers, Concurrency: 1000},
		"no namespaces":         {Servers: good.Servers, Naming: platform.Naming{Host: "{name}.{namespace}"}},
		"{tag} is not":          {Servers: good.Servers, Naming: platform.Naming{Host: "{name}.{tag}"}},
		"applicationHost: host": {Servers: good.Servers, ApplicationHost: "one"},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
