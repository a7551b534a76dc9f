package logline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
	"fairway/internal/spelling"
)

// noRoute looks why no route matched: the routes of the virtual host, or the hosts that there are.
func (x *explainer) noRoute(c accesslog.Cause) {
	if s := x.step("filter chain"); s != nil && s.Decision == "none matches" {
		x.noChain(c)
		return
	}
	if x.answer == nil {
		for _, r := range x.virtualServices() {
			r.field = "spec.http"
			x.blame(r, "it is for the host of the request; which of its routes match is known only with the proxy",
				"name the proxy with --proxy")
		}
		if len(x.out.Findings) == 0 {
			x.unknownHost()
		}
		return
	}
	s := x.step("route")
	if s == nil || s.Decision != "no route matches" {
		if x.fits || x.foreign() {
			x.unknownHost()
		}
		return
	}
	why := "no route of it matches " + strings.TrimSpace(x.e.Method+" "+x.e.Path)
	if reasons := passed(s); reasons != "" {
		why += ": " + reasons
	}
	for _, r := range x.virtualServices() {
		if r.field = "spec.http"; x.object(r) != nil {
			x.blame(r, why, "add a route that matches, or a last one without match; or correct the request")
		}
	}
}

// foreign reports whether no virtual host of the proxy is for the host of the line, as far as that is known.
func (x *explainer) foreign() bool {
	v := x.step("virtual host")
	return v == nil || strings.HasPrefix(v.Decision, `domain "*"`)
}

// unknownHost looks for the host that may have been meant.
func (x *explainer) unknownHost() {
	host := x.host()
	if host == "" {
		host = x.e.ServerName
	}
	if host == "" {
		return
	}
	near, r := x.nearest(host)
	if s := x.shortFor(host); s != nil {
		x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, "spec.hosts"},
			fmt.Sprintf("%q is a name of %s, and this proxy, or this port of it, does not have it", host, s.Hostname),
			"ask for "+string(s.Hostname)+": short names are for proxies of the same namespace; look at exportTo, Sidecars and the "+
				"port too")
		return
	}
	means := fmt.Sprintf("no service, VirtualService or Gateway that this proxy sees has host %q", host)
	if near == "" {
		x.add(Finding{
			Means: means, Right: "declare the host with a Service, ServiceEntry or VirtualService, or correct the request's host",
		})
		return
	}
	x.blame(r, means+"; "+strconv.Quote(near)+" is near", "ask for "+near+", or add the host")
}

// nearest returns the host nearest to an unknown one, and the object that has it; "": none is near.
func (x *explainer) nearest(host string) (near string, of ref) {
	if len(host) > spelling.Longest {
		return "", ref{}
	}
	best := 1 + max(2, len(host)/6)
	try := func(name string, r ref) {
		for _, alias := range aliases(name) {
			if d := spelling.Distance(host, alias, best); d > 0 && d < best {
				best, near, of = d, alias, r
			}
		}
	}
	for _, s := range x.registry() {
		try(string(s.Hostname), ref{Kind: s.Object.Kind, Namespace: s.Object.Namespace, Name: s.Object.Name, field: "spec.hosts"})
	}
	if near != "" && best <= 2 { // one or two letters: nothing is nearer among the rules
		return near, of
	}
	for _, kind := range []string{"VirtualService", "Gateway"} {
		for _, o := range x.all(kind) {
			for _, h := range list(o.Spec, "hosts") {
				if s, ok := h.(string); ok {
					try(s, ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, field: "spec.hosts"})
				}
			}
			for i, server := range list(o.Spec, "servers") {
				for _, h := range list(server, "hosts") {
					if s, ok := h.(string); ok {
						_, name, cut := strings.Cut(s, "/")
						if !cut {
							name = s
						}
						try(name, ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, field: fmt.Sprintf("spec.servers[%d].hosts", i)})
					}
				}
			}
		}
	}
	return near, of
}

// shortFor returns the service that has a host as one of its names; nil: there is none.
func (x *explainer) shortFor(host string) *page.ServiceInfo {
	all := x.registry()
	for i := range all {
		if slices.Contains(aliases(string(all[i].Hostname)), host) {
			return &all[i]
		}
	}
	return nil
}

// aliases are the names that callers may use for a host.
func aliases(host string) []string {
	out := []string{host}
	if name, _, ok := strings.Cut(host, ".svc."); ok {
		short, _, _ := strings.Cut(name, ".")
		out = append(out, name+".svc", name, short)
	}
	return out
}

// noChain looks why no filter chain of the listener took the connection.
func (x *explainer) noChain(c accesslog.Cause) {
	why := "no filter chain takes the connection"
	if x.e.ServerName != "" {
		why += " for server name " + strconv.Quote(x.e.ServerName)
	}
	if s := x.step("filter chain"); s != nil {
		if reasons := passed(s); reasons != "" {
			why += ": " + reasons
		}
	}
	for _, r := range x.madeOf("listener", "Gateway", "PeerAuthentication") {
		r.field = map[string]string{"Gateway": "spec.servers", "PeerAuthentication": "spec.mtls"}[r.Kind]
		x.blame(r, why, c.Right)
	}
	if len(x.out.Findings) == 0 {
		x.unknownHost()
	}
}

// answered looks for the rule that makes the proxy answer by itself.
func (x *explainer) answered(c accesslog.Cause) {
	switch {
	case x.e.Route == "block_all" || x.e.Cluster == "BlackHoleCluster" || x.e.Code == 502:
		x.unknownHost()
		return
	case x.e.Route == "misdirected" || x.e.Code == 421:
		x.add(Finding{
			Means: fmt.Sprintf("the connection's server name %q is for another host than %q", x.e.ServerName, x.host()), Right: c.Right,
		})
		return
	}
	for _, field := range []string{"directResponse", "redirect"} {
		inRoute([]string{field}, "answers the request", "change it, or add a route above it that matches the request")(x, c)
	}
	if len(x.out.Findings) > 0 {
		return
	}
	for _, r := range x.madeOf("listener", "Gateway") {
		o := x.object(r)
		if o == nil {
			continue
		}
		for i, server := range list(o.Spec, "servers") {
			if get(server, "tls", "httpsRedirect") == true {
				r.field = fmt.Sprintf("spec.servers[%d].tls.httpsRedirect", i)
				x.blame(r, "plaintext requests are redirected to HTTPS", "ask by https, or remove it")
			}
		}
	}
}

// noCluster looks for the destination that names what does not exist.
func (x *explainer) noCluster(accesslog.Cause) {
	port, subset, host, ok := x.target()
	if !ok {
		return
	}
	for _, r := range x.virtualServices() {
		o := x.object(r)
		if o == nil {
			continue
		}
		for _, field := range destinations(o.Spec, o.Namespace, host, subset) {
			r.field = field
			means, right := x.missing(port, subset, host)
			x.blame(r, means, right)
		}
	}
	if len(x.out.Findings) == 0 {
		means, right := x.missing(port, subset, host)
		x.add(Finding{Means: means, Right: right})
	}
}

// destinations returns the fields of a VirtualService that name a host and subset.
func destinations(spec any, namespace, host, subset string) (out []string) {
	for _, protocol := range []string{"http", "tls", "tcp"} {
		for i, h := range list(spec, protocol) {
			for j, d := range list(h, "route") {
				to := get(d, "destination")
				if names(text(to, "host"), namespace, host) && text(to, "subset") == subset {
					out = append(out, fmt.Sprintf("spec.%s[%d].route[%d].destination", protocol, i, j))
				}
			}
		}
	}
	return out
}

// missing says what of a destination does not exist.
func (x *explainer) missing(port, subset, host string) (means, right string) {
	s := x.service(host)
	if s == nil {
		if near, _ := x.nearest(host); near != "" {
			return fmt.Sprintf("there is no host %q; %q is near", host, near), "write " + near
		}
		return fmt.Sprintf("there is no host %q", host), "declare it with a Service or ServiceEntry, or correct the destination"
	}
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, strconv.Itoa(int(p.Port)))
	}
	if !slices.Contains(ports, port) {
		return fmt.Sprintf("host %q has no port %s, it has %s", host, port, strings.Join(ports, ", ")),
			"name one of these in destination.port.number"
	}
	known := x.subsets(host)
	if subset == "" || slices.Contains(known, subset) {
		return fmt.Sprintf("the proxy does not have the cluster of %q yet", host),
			"look whether it is behind (pilotctl proxy-status), and whether its Sidecar imports the host"
	}
	if len(known) == 0 {
		return fmt.Sprintf("no DestinationRule has subset %q of %q", subset, host), "write a DestinationRule with this subset"
	}
	return fmt.Sprintf("no DestinationRule has subset %q of %q, there are %s", subset, host, strings.Join(known, ", ")),
		"name one of these, or add the subset"
}

// subsets returns the names of a host's subsets.
func (x *explainer) subsets(host string) (out []string) {
	for _, o := range x.all("DestinationRule") {
		if !names(text(o.Spec, "host"), o.Namespace, host) {
			continue
		}
		for _, s := range list(o.Spec, "subsets") {
			out = append(out, text(s, "name"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
