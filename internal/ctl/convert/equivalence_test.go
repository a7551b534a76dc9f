package convert_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/ctl/convert"
	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// compared are the proxies to compare, with originals and with results: a gateway of the latter has another label.
var compared = []struct{ original, result string }{
	{"sidecar web-1.shop 10.0.0.1", "sidecar web-1.shop 10.0.0.1"},
	{"sidecar cli-1.other 10.0.0.2", "sidecar cli-1.other 10.0.0.2"},
	{
		"router gw-1.edge 10.0.0.3 istio=ingress here",
		"router gw-1.edge 10.0.0.3 gateway.networking.k8s.io/gateway-name=front here",
	},
}

// TestEquivalence: converted objects have the effect of the originals. It compiles both, and tries requests that match any of their routes.
func TestEquivalence(t *testing.T) {
	golden.Run(t, "testdata/equivalent/*.txtar", func(t *testing.T, a *golden.Archive) {
		for _, f := range a.Inputs() {
			if f.Name == "base.yaml" || f.Name == "gateway.yaml" {
				continue
			}
			t.Run(strings.TrimSuffix(f.Name, ".yaml"), func(t *testing.T) {
				rules := string(a.File("gateway.yaml")) + "\n---\n" + string(f.Data)
				equivalent(t, string(a.File("base.yaml")), rules, strings.Contains(f.Name, "elements"))
			})
		}
	})
}

// equivalent converts rules, which must be possible without loss, and compares the routes of both.
func equivalent(t *testing.T, base, rules string, elements bool) {
	t.Helper()
	before := compiletest.Large(t)
	before.Apply(base + "\n---\n" + rules)
	made, lost := converted(t, before.Decode(base+"\n---\n"+rules), elements)
	for _, r := range lost {
		t.Errorf("it is not converted: %s", r)
	}
	sameRoutes(t, before, base, made, elements)
}

// decoder is the one of all tests: what it prepares for a kind takes longer than most conversions do.
var decoder = sync.OnceValues(func() (*config.Decoder, error) { return config.NewDecoder(config.Options{}) })

func converted(t *testing.T, objects []*config.Object, elements bool) (text string, lost []convert.Remark) {
	t.Helper()
	decoder, err := decoder()
	if err != nil {
		t.Fatal(err)
	}
	made, remarks := convert.Convert(convert.Options{
		Decoder: decoder, Domain: "cluster.local", Class: "fairway", Elements: elements,
	}, objects)
	for _, o := range made {
		body, err := o.JSON()
		if err != nil {
			t.Fatal(err)
		}
		text += "---\n" + string(body) + "\n"
	}
	return text, slices.DeleteFunc(remarks, func(r convert.Remark) bool { return !r.Lost })
}

// sameRoutes compares a world of originals with one of the results.
func sameRoutes(t *testing.T, before *compiletest.World, base, made string, elements bool) {
	t.Helper()
	after := compiletest.Large(t)
	after.Apply(base + "\n" + made)
	for _, w := range []*compiletest.World{before, after} {
		for _, name := range []string{"web", "more"} {
			w.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{{
				Key: config.Key{Kind: config.Secret, Namespace: "edge", Name: name}, Spec: &structpb.Struct{},
				Credential: &config.Credential{Holders: config.AnyHolder, Chain: []byte(name)},
			}}}})
		}
	}
	for _, p := range compared {
		before.Connect(compiletest.Proxy(p.original))
		after.Connect(compiletest.Proxy(p.result))
	}
	before.Settle()
	after.Settle()
	for _, p := range compared {
		id := compiletest.Proxy(p.original).ID
		old, now := viewOf(t, before, id), viewOf(t, after, id)
		n := 0
		for name := range both(old.chains, now.chains) {
			was, is := old.chains[name], now.chains[name]
			if !strings.Contains(was, "http ") || !strings.Contains(is, "http ") {
				if was != is {
					t.Errorf("%s %s: %q, and converted %q", id, name, was, is)
				}
				continue
			}
			tls, first, _ := strings.Cut(was, "http ")
			other, second, _ := strings.Cut(is, "http ")
			if tls != other {
				t.Errorf("%s %s: %q, and converted %q", id, name, tls, other)
			}
			only := strings.Fields(name)[1] // the server name
			n += try(t, id, old.routes[first], now.routes[second], only, elements)
		}
		if !strings.HasPrefix(p.original, "router") {
			for name := range both(old.routes, now.routes) {
				n += try(t, id, old.routes[name], now.routes[name], "*", elements)
			}
		}
		t.Logf("%s: %d requests, %d chains", id, n, len(old.chains))
	}
	if t.Failed() {
		t.Logf("converted:\n%s\n%s", made, after.ProblemText())
	}
}

func both[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// try compares what becomes of requests to the virtual hosts of a route configuration.
func try(t *testing.T, id mesh.ProxyID, old, now []*routev3.VirtualHost, only string, elements bool) (n int) {
	t.Helper()
	for _, r := range requests(old, now, only) {
		if elements && !wholeElements(old, r.path) || strings.Contains(t.Name(), "grpc") && strings.Count(r.path, "/") != 2 {
			continue
		}
		n++
		if was, is := outcome(t, old, r), outcome(t, now, r); was != is {
			t.Errorf("%s: %+v:\n%s\nconverted:\n%s", id, r, was, is)
			return n
		}
	}
	return n
}

// wholeElements reports whether no prefix of the routes ends within an element of a path, where PathPrefix differs.
func wholeElements(hosts []*routev3.VirtualHost, path string) bool {
	for _, h := range hosts {
		for _, r := range h.GetRoutes() {
			written := r.GetMatch().GetPrefix()
			p := strings.TrimRight(written, "/")
			rest, ok := strings.CutPrefix(path, p)
			if p != "" && ok && (rest == "" && p != written || rest != "" && rest[0] != '/') {
				return false
			}
		}
	}
	return true
}

// requests returns requests that match routes, nearly match them, or match none. only: the host, or a wildcard that it is below.
func requests(old, now []*routev3.VirtualHost, only string) (out []request) {
	hosts, paths, methods := map[string]bool{}, map[string]bool{"/": true, "/other": true}, map[string]bool{"GET": true, "POST": true}
	headers, query := []map[string]string{{}}, []map[string]string{{}}
	for _, h := range slices.Concat(old, now) {
		for _, d := range h.GetDomains() {
			if d != "nothing.invalid" { // route.NoHost
				hosts[strings.ReplaceAll(d, "*", "any.test")] = true
			}
		}
		for _, r := range h.GetRoutes() {
			m := r.GetMatch()
			for _, p := range []string{m.GetPath(), m.GetPrefix(), m.GetPathSeparatedPrefix(), plainOf(m.GetSafeRegex().GetRegex())} {
				for _, more := range []string{"", "x", "/", "/x"} {
					if p != "" {
						paths[p+more] = true
						paths["/"+strings.Trim(p, "/")+more] = true
					}
				}
			}
			for _, c := range m.GetHeaders() {
				s := c.GetStringMatch()
				value := s.GetExact() + s.GetPrefix() + plainOf(s.GetSafeRegex().GetRegex())
				if c.GetName() == ":method" {
					methods[value] = true
					continue
				}
				headers = with(headers, strings.ToLower(c.GetName()), value)
			}
			for _, c := range m.GetQueryParameters() {
				s := c.GetStringMatch()
				query = with(query, c.GetName(), s.GetExact()+s.GetPrefix()+plainOf(s.GetSafeRegex().GetRegex()))
			}
		}
	}
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		if only != "*" && !mesh.Host(only).Matches(mesh.Host(h)) {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(paths)) {
			if strings.HasPrefix(p, "//") { // a rewrite by whole elements joins slashes
				continue
			}
			for _, m := range slices.Sorted(maps.Keys(methods)) {
				for _, hd := range headers {
					for _, q := range query {
						out = append(out, request{h, m, p, hd, q})
					}
				}
			}
		}
	}
	return out
}

// with adds sets of headers: one value more for each set.
func with(sets []map[string]string, name, value string) []map[string]string {
	if len(sets) > 32 {
		return sets
	}
	for _, s := range slices.Clone(sets) {
		if _, has := s[name]; has {
			continue
		}
		for _, v := range []string{value, value + "x"} {
			one := maps.Clone(s)
			one[name] = v
			if !slices.ContainsFunc(sets, func(o map[string]string) bool { return fmt.Sprint(o) == fmt.Sprint(one) }) {
				sets = append(sets, one)
			}
		}
	}
	return sets
}

// plainOf returns a text that a simple regular expression matches.
func plainOf(expression string) string {
	plain := strings.NewReplacer(".*", "", "^", "", "$", "", "(?:", "", ")", "", "[^/]+", "some", "[a-c]", "b").Replace(expression)
	return strings.ReplaceAll(plain, `\`, "")
}
