package logline

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/admin/page"
	"fairway/internal/mesh"
)

// splitPort takes the port from a host, if it has one.
func splitPort(address string) (host, port string) {
	if h, p, err := net.SplitHostPort(address); err == nil {
		return h, p
	}
	return strings.Trim(address, "[]"), ""
}

// Fetch reads a page of JSON from each control plane in turn until one has an answer.
type Fetch func(ctx context.Context, path string, query url.Values, into any) error

// Pages are the pages of control planes. Those with all proxies, services or objects of a kind are read once, for all lines.
type Pages struct {
	fetch    Fetch
	proxies  *[]page.ProxySync
	services *[]page.ServiceInfo
	kinds    map[string]*[]page.ObjectInfo
}

// NewPages returns the pages that a function reads.
func NewPages(f Fetch) *Pages { return &Pages{fetch: f} }

// read reads a page once.
func read[T any](x *explainer, into **[]T, what, path string, query url.Values) {
	if *into != nil {
		return
	}
	*into = new([]T)
	x.failed(what+" are not known", x.fetch(x.ctx, path, query, *into))
}

// NamesOnly asks /debug/syncz for proxies without what they lack.
var NamesOnly = url.Values{"brief": {"true"}}

// findProxy finds the proxy that wrote the line: the one that the user names, or the one with an address of the line.
func (x *explainer) findProxy() {
	read(x, &x.proxies, "the proxies", "/debug/syncz", NamesOnly)
	remote, _ := splitPort(x.e.DownstreamRemote)
	if p := x.at(remote); p != nil {
		x.peer = p.Identity
	}
	if x.o.Proxy != "" {
		best := 0
		for i, p := range *x.proxies {
			if fit := page.Fit(p.ProxyID, p.Identity, x.o.Proxy); fit > best {
				best, x.proxy = fit, &(*x.proxies)[i]
			}
		}
		if best == 0 {
			x.note("no connected proxy is called " + strconv.Quote(x.o.Proxy) + "; pilotctl proxy-status lists them")
		}
	} else {
		x.proxy = x.byAddress()
	}
	if x.proxy == nil {
		if x.o.Proxy == "" {
			x.note("the line does not say which proxy wrote it; name it with --proxy to have the request replayed")
		}
		return
	}
	x.out.Proxy, x.out.Side = x.proxy.ProxyID, "client"
	switch {
	case mesh.ProxyID(x.proxy.ProxyID).IsRouter():
		x.out.Side = "gateway"
	case x.inbound():
		x.out.Side = "server"
	}
}

// byAddress returns the proxy that has an address of the line: a server's proxy was connected to, a client's connects and is connected
// from.
func (x *explainer) byAddress() *page.ProxySync {
	addresses := []string{x.e.UpstreamLocal, x.e.DownstreamRemote}
	if x.e.Inbound() {
		addresses = []string{x.e.DownstreamLocal}
	} else if !strings.HasPrefix(x.e.Cluster, "outbound|") {
		addresses = append([]string{x.e.DownstreamLocal}, addresses...)
	}
	for _, a := range addresses {
		host, _ := splitPort(a)
		if p := x.at(host); p != nil {
			return p
		}
	}
	return nil
}

// at returns the proxy at an address; nil: there is none, or more than one.
func (x *explainer) at(address string) (found *page.ProxySync) {
	if a, err := netip.ParseAddr(address); err != nil || a.IsLoopback() {
		return nil
	}
	for i, p := range *x.proxies {
		if page.NodeAddress(p.ProxyID) != address {
			continue
		}
		if found != nil {
			return nil
		}
		found = &(*x.proxies)[i]
	}
	return found
}

// inbound reports whether the line is of the server's side.
func (x *explainer) inbound() bool {
	local, _ := splitPort(x.e.DownstreamLocal)
	return x.e.Inbound() || x.proxy != nil && !strings.HasPrefix(x.e.Cluster, "outbound|") && local == page.NodeAddress(x.proxy.ProxyID)
}

// replay asks what the proxy does with the request of the line, and picks the way that ends as the line says.
func (x *explainer) replay() {
	query := x.request()
	if query == nil {
		return
	}
	var answer page.RequestExplanation
	if err := x.fetch(x.ctx, "/debug/explainz", query, &answer); err != nil {
		x.failed("the request cannot be replayed", err)
		return
	}
	x.answer = &answer
	for i := range answer.Ways {
		if x.endsSo(answer.Ways[i].Outcome) {
			x.way, x.fits = &answer.Ways[i], true
			break
		}
	}
	if x.way == nil && len(answer.Ways) > 0 {
		x.way = &answer.Ways[0]
	}
	if x.fits && len(x.way.Conditions) > 0 {
		x.note("the proxy does so if " + strings.Join(x.way.Conditions, ", and "))
	}
	if decided := x.out.Causes; !x.fits && x.way != nil && len(decided) > 0 && replayable[decided[0].Place] {
		x.note("with the configuration that the proxy holds now, such a request ends otherwise (" + outcomeText(x.way.Outcome) +
			"): the configuration has changed since, or headers that the log does not have decide; give them with -H")
	}
}

// replayable are the places that the interpreter decides about: its answer is the proxy's.
var replayable = map[string]bool{"route": true, "destination": true, "policy": true, "answer": true}

// request is the line's request as a question; nil: too little is known.
func (x *explainer) request() url.Values {
	if x.proxy == nil {
		return nil
	}
	host, port := splitPort(x.e.Authority)
	local, localPort := splitPort(x.e.DownstreamLocal)
	if port == "" {
		port = "80"
		if _, of, _, _, ok := mesh.ClusterParts(x.e.Cluster); ok {
			port = of
		}
	}
	if localPort != "" {
		port = localPort
	}
	q := url.Values{
		"proxyID": {x.proxy.ProxyID}, "method": {x.e.Method}, "path": {x.e.Path}, "authority": {x.e.Authority}, "host": {host},
		"port": {port}, "header": x.o.Headers,
	}
	if x.e.Method == "" && x.e.Authority == "" {
		q.Set("protocol", "tcp")
	}
	switch x.out.Side {
	case "server":
		q.Set("direction", "inbound")
		if remote, _ := splitPort(x.e.DownstreamRemote); remote != "" {
			q.Set("source", remote)
		}
		if x.peer != "" && (x.e.ServerName != "" || x.e.DownstreamRemote != "") {
			Peer(q, x.peer, x.o.Trust)
			q.Set("sni", x.e.ServerName)
			q["alpn"] = []string{"istio-http/1.1", "istio"}
		}
	case "gateway":
		if x.e.ServerName != "" {
			q.Set("sni", x.e.ServerName)
		}
		q.Set("host", cmp.Or(local, host))
	default:
		q.Set("host", cmp.Or(local, host))
	}
	if q.Get("host") == "" {
		return nil
	}
	return q
}

// endsSo reports whether a way ends as the line says.
func (x *explainer) endsSo(o page.RequestOutcome) bool {
	switch o.Kind {
	case "answered":
		if x.e.Details != "" && o.Details != "" {
			return o.Details == x.e.Details
		}
		return o.Status == x.e.Code && (o.Flag == "" || slices.Contains(x.e.Flags, o.Flag))
	case "forwarded":
		return x.e.Cluster != "" && o.Cluster == x.e.Cluster
	case "closed":
		return x.e.Code == 0 && x.e.UpstreamHost == ""
	}
	return false
}

func outcomeText(o page.RequestOutcome) string {
	switch o.Kind {
	case "answered":
		return strings.Join(strings.Fields("the proxy answers "+strconv.Itoa(o.Status)+" "+o.Flag+" "+o.Details), " ")
	case "forwarded":
		return "it goes to cluster " + strconv.Quote(o.Cluster)
	case "closed":
		return "the connection is closed: " + o.Reason
	}
	return "cannot say: " + o.Reason
}

// step returns the last step of a stage on the way; nil: there is none.
func (x *explainer) step(stage string) *page.RequestStep {
	if x.way == nil {
		return nil
	}
	for i := range slices.Backward(x.way.Steps) {
		if x.way.Steps[i].Stage == stage {
			return &x.way.Steps[i]
		}
	}
	return nil
}

// ref names an object, and a field of it.
type ref struct {
	Kind, Namespace, Name string
	field                 string
}

// written matches an object as steps name it: "VirtualService shop/reviews (mesh.yaml:11)".
var written = regexp.MustCompile(`^([A-Za-z]+) ([^/ ]*)/([^ ]+)(?: \(.*\))?$`)

// madeOf returns the objects of a kind that the resources of a stage were made from.
func (x *explainer) madeOf(stage string, kinds ...string) (out []ref) {
	if x.way == nil {
		return nil
	}
	for _, s := range x.way.Steps {
		if s.Stage != stage {
			continue
		}
		for _, text := range s.Objects {
			m := written.FindStringSubmatch(text)
			if m == nil || !slices.Contains(kinds, m[1]) {
				continue
			}
			if r := (ref{Kind: m[1], Namespace: m[2], Name: m[3]}); !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// all returns the objects of a kind that are in force.
func (x *explainer) all(kind string) []page.ObjectInfo {
	if x.kinds == nil {
		x.kinds = map[string]*[]page.ObjectInfo{}
	}
	list := x.kinds[kind]
	read(x, &list, "the objects of kind "+kind, "/debug/configz", url.Values{"kind": {kind}})
	x.kinds[kind] = list
	return *list
}

// each returns the objects that refs name; without refs all of a kind.
func (x *explainer) each(kind string, refs []ref) (out []page.ObjectInfo) {
	if len(refs) == 0 || len(refs) > mostRefs {
		return x.all(kind)
	}
	for _, r := range refs {
		if o := x.object(r); o != nil {
			out = append(out, *o)
		}
	}
	return out
}

// mostRefs is how many objects are asked for one by one.
const mostRefs = 20

// object returns an object in force; nil: there is none. If a field is named, its line is known too.
func (x *explainer) object(r ref) *page.ObjectInfo {
	query := url.Values{"kind": {r.Kind}, "namespace": {r.Namespace}, "name": {r.Name}}
	if r.field != "" {
		query.Set("field", r.field)
	}
	var list []page.ObjectInfo
	if err := x.fetch(x.ctx, "/debug/configz", query, &list); err != nil {
		x.failed(r.Kind+" "+r.Namespace+"/"+r.Name+" is not known", err)
		return nil
	}
	for i, o := range list { // older control planes do not select by name
		if o.Namespace == r.Namespace && o.Name == r.Name {
			return &list[i]
		}
	}
	return nil
}

// blame adds a field of an object, with its line.
func (x *explainer) blame(r ref, means, right string) {
	f := Finding{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Field: r.field, Means: means, Right: right}
	if o := x.object(r); o != nil {
		f.File, f.Line = o.File, o.Line
		if n := o.Lines[r.field]; n > 0 {
			f.Line = n
		}
	}
	f.Problem = x.problemOf(r)
	x.add(f)
}

// problemOf returns the problem of a field, or of one in it if the field is small; "" if there is none.
func (x *explainer) problemOf(r ref) string {
	small := strings.Contains(r.field, "[") || strings.HasPrefix(r.field, "spec.trafficPolicy")
	var all []page.ProblemInfo
	query := url.Values{"kind": {r.Kind}, "namespace": {r.Namespace}, "name": {r.Name}}
	x.failed("the problems are not known", x.fetch(x.ctx, "/debug/problems", query, &all))
	for _, p := range all {
		if p.Kind == r.Kind && p.Namespace == r.Namespace && p.Name == r.Name && p.Severity != "info" && r.field != "" &&
			(p.Field == r.field || small && (strings.HasPrefix(p.Field, r.field+".") || strings.HasPrefix(p.Field, r.field+"["))) {
			return strings.TrimSuffix(p.Message+"; "+p.Fix, "; ")
		}
	}
	return ""
}

// registry returns all services.
func (x *explainer) registry() []page.ServiceInfo {
	read(x, &x.services, "the services", "/debug/registryz", nil)
	return *x.services
}

// service returns the service of a host; nil: there is none.
func (x *explainer) service(host string) *page.ServiceInfo {
	var all []page.ServiceInfo
	x.failed("service "+host+" is not known", x.fetch(x.ctx, "/debug/registryz", url.Values{"host": {host}}, &all))
	var found *page.ServiceInfo
	for i := range all {
		if string(all[i].Hostname) == host && (found == nil || all[i].Won) {
			found = &all[i]
		}
	}
	return found
}

// Peer says who calls, to /debug/explainz: a service account as NAMESPACE/NAME, in a trust domain; empty: that of the mesh, which the
// control plane knows. Older control planes do not name it: for them the peer has the usual one.
func Peer(q url.Values, account, trust string) {
	if trust == "" {
		q.Set("account", account)
		trust = "cluster.local"
	}
	q.Set("peer", "spiffe://"+trust+"/ns/"+strings.Replace(account, "/", "/sa/", 1))
}
