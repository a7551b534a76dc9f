package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/admin/message"
	"fairway/internal/admin/page"
	"fairway/internal/interpret"
	"fairway/internal/interpret/way"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// explainz shows what a proxy does with a request, by the resources that it holds. It is a question: it decodes all resources of a proxy.
func (p *Pages) explainz(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	proxy, ok := p.proxy(w, r, query.Get("proxyID"))
	if !ok {
		return
	}
	about, _ := p.Proxy(proxy.Proxy)
	if err := p.nameAccount(query); err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, err := requestOf(about, query)
	if err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	config, failed, err := p.heldConfig(proxy)
	if err != nil {
		fail(w, err)
		return
	}
	answer, err := interpret.Explain(config, request)
	if *failed != nil {
		fail(w, *failed)
		return
	}
	if err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := explanation(proxy, answer)
	p.trace(viewerOf(r), mesh.ProxyID(proxy.Proxy), answer, &out)
	writeJSON(w, out)
}

// nameAccount makes the caller's identity of its service account, which has the trust domain of the mesh.
func (p *Pages) nameAccount(query url.Values) error {
	account := query.Get("account")
	if account == "" {
		return nil
	}
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("account=%s: want NAMESPACE/SERVICE-ACCOUNT", printable.Text(account, printable.Short))
	}
	p.Graph.Store.Read(func(tx *table.Tx) {
		query.Set("peer", "spiffe://"+p.Graph.In.TrustDomainNow(tx)+"/ns/"+namespace+"/sa/"+name)
	})
	return nil
}

// mostTraced is how many objects are named for a step: a listener may be made from thousands of services.
const mostTraced = 20

// trace adds to the steps the objects that their resources were made from, as far as the viewer may see these. A turn waits for one
// resource at most.
func (p *Pages) trace(v viewer, proxy mesh.ProxyID, answer interpret.Answer, out *page.RequestExplanation) {
	type resource struct {
		typ  xdstype.Type
		name string
	}
	var text strings.Builder
	known := map[resource]traced{}
	for i, one := range answer.Ways {
		for j, step := range one.Steps {
			typ, is := decisive[step.Type]
			if !is {
				continue
			}
			by := resource{typ, step.Name}
			from, again := known[by]
			if !again {
				from = p.made(v, proxy, typ, step.Name)
				known[by] = from
			}
			s := &out.Ways[i].Steps[j]
			s.Objects, s.MoreObjects = append(s.Objects, from.objects...), from.more
			if again || len(s.Objects) == 0 {
				continue
			}
			fmt.Fprintf(&text, "  %s %s: %s", s.Stage, step.Name, strings.Join(s.Objects, ", "))
			if from.more {
				text.WriteString(", and others")
			}
			text.WriteByte('\n')
		}
	}
	if text.Len() > 0 {
		out.Text += "made from:\n" + text.String()
	}
}

// decisive are the types of resources that are traced to objects.
var decisive = map[way.ResourceType]xdstype.Type{
	way.Listener: xdstype.Listeners, way.VirtualHost: xdstype.VirtualHosts, way.Cluster: xdstype.Clusters,
}

// traced are the objects that a resource was made from, as far as a viewer sees them.
type traced struct {
	objects []string
	more    bool
}

func (p *Pages) made(v viewer, proxy mesh.ProxyID, typ xdstype.Type, name string) (out traced) {
	var refs []mesh.ObjectRef
	p.Graph.Store.Read(func(tx *table.Tx) { refs, out.more = p.Graph.MadeFrom(tx, proxy, typ, name) })
	for _, ref := range refs {
		switch {
		case !v.sees(ref.Namespace):
		case len(out.objects) == mostTraced:
			out.more = true
		default:
			out.objects = append(out.objects, ref.String())
		}
	}
	return out
}

// requestOf reads a request and the place where it reaches a proxy.
func requestOf(proxy mesh.Proxy, query url.Values) (out interpret.Request, err error) {
	port, err := number(query, "port", 10)
	if err == nil && port > 65535 {
		err = fmt.Errorf("port=%d: want a port", port)
	}
	if err != nil {
		return out, err
	}
	out = interpret.Request{
		Host: query.Get("host"), Port: uint16(port), Domain: proxy.DNSDomain, Authority: query.Get("authority"),
		Method: query.Get("method"), Path: query.Get("path"), Protocol: query.Get("protocol"), Headers: map[string][]string{},
	}
	if out.Host == "" {
		return out, errors.New("say which host the request is for: ?host=")
	}
	for _, h := range query["header"] {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return out, fmt.Errorf("header=%s: want NAME:VALUE", printable.Text(h, printable.Short))
		}
		name = strings.ToLower(strings.TrimSpace(name))
		out.Headers[name] = append(out.Headers[name], strings.TrimSpace(value))
	}
	if from := query.Get("source"); from != "" {
		a, err := netip.ParseAddr(from)
		if err != nil {
			return out, fmt.Errorf("source=%s: want an IP address", printable.Text(from, printable.Short))
		}
		out.Source = netip.AddrPortFrom(a, 0)
	}
	return out, direct(proxy, query, &out)
}

// direct says where the connection enters the proxy, and with which TLS.
func direct(proxy mesh.Proxy, query url.Values, out *interpret.Request) error {
	switch direction := query.Get("direction"); {
	case direction == "" && proxy.Type == mesh.Router:
	case direction == "", direction == "outbound":
		out.Direction = interpret.Outbound
	case direction == "inbound":
		out.Direction = interpret.Inbound
		a, err := netip.ParseAddr(proxy.IP)
		if err != nil {
			return fmt.Errorf("the proxy's address: %w", err)
		}
		out.Destination = netip.AddrPortFrom(a, out.Port)
	default:
		return fmt.Errorf("direction=%s: want outbound or inbound", printable.Text(direction, printable.Short))
	}
	if peer, sni := query.Get("peer"), query.Get("sni"); peer != "" || sni != "" {
		out.TLS = &interpret.TLS{ServerName: sni, ALPN: query["alpn"]}
		if peer != "" {
			out.TLS.Certificate, out.TLS.URIs = true, []string{peer}
		}
	}
	return nil
}

// heldConfig returns the resources that a proxy holds, as the interpreter reads them. Clusters and load assignments, of which a request
// needs few, are decoded when they are asked for; failed is then the error of the first that cannot be.
func (p *Pages) heldConfig(proxy xds.ProxyStatus) (out interpret.Config, failed *error, err error) {
	out = interpret.Config{
		Listeners: map[string]*listenerv3.Listener{}, Routes: map[string]*routev3.RouteConfiguration{},
		VirtualHosts: map[string]*routev3.VirtualHost{},
	}
	for _, typ := range []string{xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL} {
		held, err := p.clientResources(proxy, typ)
		if err != nil {
			return out, nil, err
		}
		for _, h := range held {
			switch m := h.message.(type) {
			case *listenerv3.Listener:
				out.Listeners[h.name] = m
			case *routev3.RouteConfiguration:
				out.Routes[h.name] = m
			case *routev3.VirtualHost:
				out.VirtualHosts[h.name] = m
			}
		}
	}
	failed = new(error)
	out.FindCluster = finder[*clusterv3.Cluster](p.Streams, proxy, xdstype.ClusterURL, failed)
	out.FindLoadAssignment = finder[*endpointv3.ClusterLoadAssignment](p.Streams, proxy, xdstype.EndpointURL, failed)
	return out, failed, nil
}

// finder returns a function that decodes one resource of a proxy; it returns nil if the proxy does not have it.
func finder[M proto.Message](streams *xds.Server, proxy xds.ProxyStatus, typ string, failed *error) func(name string) M {
	held := streams.ClientResources(proxy.Proxy, typ)
	return func(name string) (out M) {
		at, has := slices.BinarySearchFunc(held, name, func(r *library.Resource, name string) int { return strings.Compare(r.Name, name) })
		if !has {
			return out
		}
		m, err := message.Decode(typ, name, held[at].Body())
		if err != nil {
			if *failed == nil {
				*failed = err
			}
			return out
		}
		return m.(M)
	}
}

// explanation converts an answer to the page's form.
func explanation(proxy xds.ProxyStatus, a interpret.Answer) page.RequestExplanation {
	id := mesh.ProxyID(proxy.Proxy)
	out := page.RequestExplanation{ProxyID: id.Node(), Text: a.Text(), Ways: []page.RequestWay{}, Truncated: a.Truncated}
	for _, w := range a.Ways {
		way := page.RequestWay{
			Probability: w.Probability, Conditions: w.Conditions, Doubts: w.Doubts,
			Outcome: page.RequestOutcome{
				Kind: [...]string{"unknown", "answered", "forwarded", "closed"}[w.Outcome.Kind], Reason: w.Outcome.Reason,
				Status: w.Outcome.Status, Flag: w.Outcome.Flag, Details: w.Outcome.Details, Location: w.Outcome.Location,
				Cluster: w.Outcome.Cluster, TCP: w.Outcome.TCP, Authority: w.Outcome.Authority, Path: w.Outcome.Path,
			},
		}
		for _, e := range w.Outcome.Endpoints {
			way.Outcome.Endpoints = append(way.Outcome.Endpoints, page.RequestEndpoint{
				Address: e.Address, Health: e.Health, Locality: e.Locality, Priority: e.Priority, Share: e.Share,
			})
		}
		for _, s := range w.Steps {
			step := page.RequestStep{Stage: s.Stage, Resource: s.Resource, Part: s.Part, Decision: s.Decision, Objects: s.Objects}
			for _, x := range s.Passed {
				step.Passed = append(step.Passed, page.RequestPassed{Part: x.Part, Reason: x.Reason})
			}
			way.Steps = append(way.Steps, step)
		}
		out.Ways = append(out.Ways, way)
	}
	return out
}
