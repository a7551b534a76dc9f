package admin

import (
	"errors"
	"fmt"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/admin/message"
	"fairway/internal/admin/page"
	"fairway/internal/compile/names"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// syncz shows each stream; a proxy that has just reconnected may have two. Before a stream is shown as synced, it is compared with the
// tables. ?brief=true leaves the comparison out, and what streams lack, for callers that look for a proxy.
func (p *Pages) syncz(w http.ResponseWriter, r *http.Request) {
	shown := p.visibleIn(r)
	if r.URL.Query().Get("brief") == "true" {
		out := make([]page.ProxySync, len(shown))
		for i, s := range shown {
			out[i] = p.sync(s)
		}
		writeJSON(w, out)
		return
	}
	var doubtful []uint64
	for _, s := range shown {
		if s.Synced && !s.Compared {
			doubtful = append(doubtful, s.Connection)
		}
	}
	if p.Compare != nil && len(doubtful) > 0 {
		p.Compare(r.Context(), doubtful)
		shown = p.visibleIn(r)
	}
	out, behind := make([]page.ProxySync, len(shown)), p.behind(viewerOf(r))
	for i, s := range shown {
		out[i] = p.sync(s)
		out[i].Behind = behind[s.Connection]
	}
	writeJSON(w, out)
}

// visibleIn returns the streams of the proxies that a viewer sees, in the namespace that a request names; none: in all.
func (p *Pages) visibleIn(r *http.Request) []xds.ProxyStatus {
	in := r.URL.Query().Get("namespace")
	return slices.DeleteFunc(p.visible(viewerOf(r)), func(s xds.ProxyStatus) bool { return in != "" && p.namespace(s.Proxy) != in })
}

// visible returns the streams of the proxies that a viewer sees.
func (p *Pages) visible(v viewer) []xds.ProxyStatus {
	return slices.DeleteFunc(p.Streams.Status(), func(s xds.ProxyStatus) bool { return !v.all && !v.sees(p.namespace(s.Proxy)) })
}

// namespace returns the namespace of a connected proxy; empty: it is not connected any more.
func (p *Pages) namespace(id library.ProxyID) string {
	proxy, _ := p.Proxy(id)
	return proxy.Namespace
}

func (p *Pages) sync(s xds.ProxyStatus) page.ProxySync {
	id := mesh.ProxyID(s.Proxy)
	line := page.ProxySync{
		ProxyID:     id.Node(),
		Identity:    id.Identity(),
		ConnectedAt: s.ConnectedAt,
		Synced:      s.Synced && s.Compared,
		Compared:    s.Compared,
		Diverged:    s.Diverged,
	}
	if proxy, ok := p.Proxy(s.Proxy); ok {
		line.ProxyType, line.ClusterID, line.IstioVersion = proxy.Type.String(), proxy.Cluster, proxy.Version
	}
	if s.Warming != nil {
		line.Warming = &page.Warming{Listeners: s.Warming.Listeners, Clusters: s.Warming.Clusters, Unknown: s.Warming.Unknown}
		if since := s.Warms.UTC(); !s.Warming.None() {
			line.Warming.Since = &since
		}
	}
	for url, t := range s.Types {
		typ, known := xdstype.Of(url)
		if t.Rejected != "" {
			if line.Rejected == nil {
				line.Rejected = map[string]string{}
			}
			line.Rejected[xdstype.Label(url)] = t.Rejected
		}
		if known {
			line.Nonces[typ] = page.Nonces{Sent: t.Sent.Nonce, Acked: t.Acked.Nonce}
		}
	}
	return line
}

// errAmbiguous reports that a name fits several proxies.
var errAmbiguous = errors.New("several proxies fit")

// find returns the stream of the proxy that a viewer names by its whole key, by node id, by name.namespace, or by name alone; if the proxy
// has several streams, the youngest. An exact match wins. Proxies that the viewer may not see are not found.
func (p *Pages) find(v viewer, name string) (xds.ProxyStatus, error) {
	if name == "" {
		return xds.ProxyStatus{}, errors.New("say which proxy: ?proxyID=; /debug/syncz lists them")
	}
	var best int
	var found []xds.ProxyStatus // one for each proxy
	for _, s := range p.visible(v) {
		id := mesh.ProxyID(s.Proxy)
		fit := page.Fit(id.Node(), id.Identity(), name)
		switch {
		case fit == 0 || fit < best:
			continue
		case fit > best:
			best, found = fit, nil
		}
		if n := len(found); n > 0 && found[n-1].Proxy == s.Proxy {
			found = found[:n-1]
		}
		found = append(found, s)
	}
	switch len(found) {
	case 0:
		return xds.ProxyStatus{}, fmt.Errorf("no connected proxy is called %q; /debug/syncz lists them", name)
	case 1:
		return found[0], nil
	}
	return xds.ProxyStatus{}, fmt.Errorf("%w %q, name one of them in full: %s", errAmbiguous, name, strings.Join(fullNames(found), ", "))
}

// fullNames returns names that differ: name.namespace if that is enough, else node ids, else whole keys.
func fullNames(proxies []xds.ProxyStatus) []string {
	var short, nodes, keys []string
	for _, s := range proxies {
		id := mesh.ProxyID(s.Proxy)
		nodes = append(nodes, id.Node())
		short = append(short, page.ShortName(id.Node()))
		keys = append(keys, page.Key(id.Node(), id.Identity()))
	}
	for _, names := range [][]string{short, nodes} {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) == len(keys) {
			return names
		}
	}
	slices.Sort(keys)
	return keys
}

// proxy returns the proxy that a request names. If the request names none, or several, it answers the request and returns false.
func (p *Pages) proxy(w http.ResponseWriter, r *http.Request, name string) (xds.ProxyStatus, bool) {
	s, err := p.find(viewerOf(r), name)
	switch {
	case err == nil:
		return s, true
	case name == "" || errors.Is(err, errAmbiguous):
		writeError(w, err.Error(), http.StatusBadRequest)
	default:
		writeError(w, err.Error(), http.StatusNotFound)
	}
	return s, false
}

func (p *Pages) resourcez(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	proxy, ok := p.proxy(w, r, query.Get("proxyID"))
	if !ok {
		return
	}
	types := message.Types(query.Get("type"))
	if len(types) == 0 {
		writeError(w, fmt.Sprintf("type %q: want cds, ecds, eds, lds, rds, vhds or sds", query.Get("type")), http.StatusBadRequest)
		return
	}
	p.showResources(w, r, proxy, types)
}

// showResources shows the resources of some types that a proxy was sent, with ?made=true the objects that they were made from too.
func (p *Pages) showResources(w http.ResponseWriter, r *http.Request, proxy xds.ProxyStatus, types []xdstype.Type) {
	out := []page.Resource{}
	trace := tracer{p, viewerOf(r), proxy, map[string]int{"true": mostTracedAtOnce}[r.URL.Query().Get("made")]}
	for _, typ := range types {
		held, err := p.clientResources(proxy, typ.URL())
		if err != nil {
			fail(w, err)
			return
		}
		for _, h := range held {
			text, err := protojson.Marshal(h.message)
			if err != nil {
				fail(w, fmt.Errorf("%s: %w", h.name, err))
				return
			}
			out = append(out, page.Resource{Name: h.name, Type: typ.URL(), Version: h.version, Body: text, Made: trace.of(typ, h)})
		}
	}
	writeJSON(w, out)
}

// mostTracedAtOnce bounds the resources that one answer traces to objects: each is read from the tables.
const mostTracedAtOnce = 2000

// tracer finds the objects that resources of a proxy were made from.
type tracer struct {
	pages  *Pages
	viewer viewer
	proxy  xds.ProxyStatus
	left   int // resources that it may still trace
}

// of returns the objects by the name of the resource. For a route configuration of the state-of-the-world protocol these are the names of
// its virtual hosts.
func (t *tracer) of(typ xdstype.Type, h heldResource) map[string][]string {
	names := []string{h.name}
	if route, is := h.message.(*routev3.RouteConfiguration); is {
		typ, names = xdstype.VirtualHosts, nil
		for _, host := range route.VirtualHosts {
			names = append(names, host.Name)
		}
	}
	out := map[string][]string{}
	for _, name := range names {
		if t.left--; t.left < 0 {
			break
		}
		if made := t.pages.made(t.viewer, mesh.ProxyID(t.proxy.Proxy), typ, name); len(made.objects) > 0 {
			out[name] = made.objects
		}
	}
	return out
}

// ndsz shows the names that a proxy's agent was sent.
func (p *Pages) ndsz(w http.ResponseWriter, r *http.Request) {
	proxy, ok := p.proxy(w, r, r.URL.Query().Get("proxyID"))
	if !ok {
		return
	}
	out := []page.NameInfo{}
	for _, res := range p.Streams.ClientResources(proxy.Proxy, xdstype.NameTableURL) {
		shown, err := names.Show(res.Body())
		if err != nil {
			fail(w, fmt.Errorf("%s: %w", res.Name, err))
			return
		}
		for _, s := range shown {
			out = append(out,
				page.NameInfo{Host: s.Host, Addresses: s.Addresses, Resource: res.Name, Version: library.FormatVersion(res.Version())})
		}
	}
	writeJSON(w, out)
}
