package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/admin/page"
	"fairway/internal/interpret"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
)

// explainz shows what a proxy does with a request, by the resources that it holds. One request at a time is answered: each decodes all
// resources of a proxy.
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
	select {
	case p.interprets <- struct{}{}:
		defer func() { <-p.interprets }()
	case <-r.Context().Done():
		return
	}
	config, err := p.heldConfig(proxy)
	if err != nil {
		fail(w, err)
		return
	}
	answer, err := interpret.Explain(config, request)
	if err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := explanation(proxy, answer)
	p.trace(viewerOf(r), mesh.ProxyID(proxy.Proxy), &out)
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

// trace adds to the steps the objects that their resources were made from, as far as the viewer may see these.
func (p *Pages) trace(v viewer, proxy mesh.ProxyID, out *page.RequestExplanation) {
	var text strings.Builder
	p.Graph.Store.Read(func(tx *table.Tx) {
		for i := range out.Ways {
			for j := range out.Ways[i].Steps {
				s := &out.Ways[i].Steps[j]
				typ, name, ok := resourceOf(*s)
				if !ok {
					continue
				}
				for _, ref := range p.Graph.MadeFrom(tx, proxy, typ, name) {
					if v.sees(ref.Namespace) {
						s.Objects = append(s.Objects, ref.String())
					}
				}
				if line := fmt.Sprintf("  %s %s: %s\n", s.Stage, name, strings.Join(s.Objects, ", ")); len(s.Objects) > 0 &&
					!strings.Contains(text.String(), line) {
					text.WriteString(line)
				}
			}
		}
	})
	if text.Len() > 0 {
		out.Text += "made from:\n" + text.String()
	}
}

// resourceOf returns the resource that decides a step; false: the page names no objects for such a step.
func resourceOf(s page.RequestStep) (typ xdstype.Type, name string, ok bool) {
	switch s.Stage {
	case "listener":
		name, ok = quoted(s.Resource)
		return xdstype.Listeners, name, ok
	case "virtual host":
		name, ok = quoted(s.Part)
		return xdstype.VirtualHosts, name, ok
	case "cluster":
		name, ok = quoted(s.Resource)
		return xdstype.Clusters, name, ok
	}
	return 0, "", false
}

// quoted returns the first text in quotes.
func quoted(text string) (string, bool) {
	_, rest, ok := strings.Cut(text, `"`)
	name, _, closed := strings.Cut(rest, `"`)
	return name, ok && closed
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
		Host: query.Get("host"), Port: uint16(port), Authority: query.Get("authority"),
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

// heldConfig returns the resources that a proxy holds, as the interpreter reads them.
func (p *Pages) heldConfig(proxy xds.ProxyStatus) (out interpret.Config, err error) {
	out = interpret.Config{
		Listeners: map[string]*listenerv3.Listener{}, Routes: map[string]*routev3.RouteConfiguration{},
		VirtualHosts: map[string]*routev3.VirtualHost{}, Clusters: map[string]*clusterv3.Cluster{},
		LoadAssignments: map[string]*endpointv3.ClusterLoadAssignment{},
	}
	for _, typ := range []string{
		xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL, xdstype.ClusterURL, xdstype.EndpointURL,
	} {
		held, err := p.clientResources(proxy, typ)
		if err != nil {
			return out, err
		}
		for _, h := range held {
			switch m := h.message.(type) {
			case *listenerv3.Listener:
				out.Listeners[h.name] = m
			case *routev3.RouteConfiguration:
				out.Routes[h.name] = m
			case *routev3.VirtualHost:
				out.VirtualHosts[h.name] = m
			case *clusterv3.Cluster:
				out.Clusters[h.name] = m
			case *endpointv3.ClusterLoadAssignment:
				out.LoadAssignments[h.name] = m
			}
		}
	}
	return out, nil
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
