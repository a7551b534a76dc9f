package interpret

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/interpret"
)

// words are texts that the matchers of a proxy's configuration name.
type words struct {
	hosts, paths, headers, params, values []string
}

// wordsOf collects the texts of matchers, and a few that match expressions.
func wordsOf(c interpret.Config) *words {
	w := &words{
		paths: []string{
			"/", "/item/12", "/item/12/edit", "/item/x", "/list/abc/42", "/tree/oak/leaf", "/x.html", "/a/../admin", "/a//b", "/only%2Fone",
			"/%61pi/v1", "/a%20b", "/a/./b", "/a/b/..", "/../admin", "/a%7eb", "/a%2e%2e/b", "/a;b", "/a=b", "/a'b", "/a%3cb", "/%2e%2e/x",
		},
		values:  []string{"ab", "aab", "b", "1", "10", "group=beta", "a=1; group=beta", "web"},
		headers: []string{"x-other"},
	}
	for _, m := range c.Routes {
		w.collect(m.ProtoReflect())
	}
	for _, m := range c.Listeners {
		w.collect(m.ProtoReflect())
	}
	for _, list := range []*[]string{&w.hosts, &w.paths, &w.headers, &w.params, &w.values} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return w
}

// collect looks for matchers in a message and all below it.
func (w *words) collect(m protoreflect.Message) {
	switch m := m.Interface().(type) {
	case *anypb.Any:
		if inner, err := m.UnmarshalNew(); err == nil {
			w.collect(inner.ProtoReflect())
		}
		return
	case *routev3.VirtualHost:
		for _, d := range m.GetDomains() {
			d = strings.Replace(d, "*", "any", 1)
			if _, err := netip.ParseAddr(d); err != nil && !strings.Contains(d, "127.") &&
				!strings.HasPrefix(d, "tcp.test") { // its servers speak no HTTP
				w.hosts = append(w.hosts, d)
			}
		}
	case *routev3.HeaderMatcher:
		if !strings.HasPrefix(m.GetName(), ":") {
			w.headers = append(w.headers, m.GetName())
		}
	case *routev3.QueryParameterMatcher:
		w.params = append(w.params, m.GetName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { w.collect(v.Message()); return true })
			}
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				w.collect(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			w.collect(v.Message())
		case !f.IsList() && f.Kind() == protoreflect.StringKind:
			w.word(string(f.Name()), v.String())
		}
		return true
	})
}

func (w *words) word(field, value string) {
	switch field {
	case "prefix", "path", "exact", "suffix", "contains", "path_separated_prefix":
		switch {
		case value == "" || len(value) > 60:
		case strings.HasPrefix(value, "/"):
			w.paths = append(w.paths, value)
		default:
			w.values = append(w.values, value)
		}
	}
}

// draw makes random requests.
type draw struct {
	*rand.Rand
	words *words
}

func (d draw) of(list []string) string { return list[d.IntN(len(list))] }

// nearly changes a text a little, or not at all.
func (d draw) nearly(text, more string) string {
	switch d.IntN(9) {
	case 0:
		return text + more
	case 1:
		return text[:max(1, len(text)-1)]
	case 2:
		return strings.ToUpper(text)
	case 3:
		return text + string("abz019"[d.IntN(6)])
	}
	return text
}

var methods = []string{"GET", "GET", "GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"}

// request is a random request of the site.
func (d draw) request(hosts []string) interpret.Request {
	r := interpret.Request{Method: d.of(methods), Headers: map[string][]string{}}
	if r.Authority = d.of(hosts); d.IntN(3) == 0 {
		r.Authority = d.of(d.words.hosts)
	}
	switch d.IntN(12) {
	case 0:
		r.Authority = strings.ToUpper(r.Authority)
	case 1:
		r.Authority = "x." + r.Authority
	case 2:
		r.Authority += ":8000"
	case 3:
		r.Authority += "x"
	}
	if strings.Count(r.Authority, ":") > 1 {
		r.Authority = d.of(hosts)
	}
	r.Path = d.nearly(d.of(d.words.paths), d.of([]string{"/", "/more", "?q=1", ".html", "x"}))
	if len(d.words.params) > 0 && d.IntN(3) == 0 && !strings.Contains(r.Path, "?") {
		r.Path += "?" + d.of(d.words.params) +
			"=" + d.of([]string{"1", "12", "x", ""}) + "&" + d.of(d.words.params) + "=" + d.of([]string{"1", "20"})
	}
	for range d.IntN(3) {
		if name := d.of(d.words.headers); name != "authorization" && !strings.HasPrefix(name, "x-envoy") {
			r.Headers[name] = []string{d.nearly(d.of(d.words.values), "x")}
		}
	}
	if d.IntN(12) == 0 {
		r.Headers["origin"] = []string{d.of([]string{"https://friend.example", "https://a.shop.example", "https://foe.example"})}
		r.Headers["access-control-request-method"] = []string{"GET"}
	}
	return r
}
