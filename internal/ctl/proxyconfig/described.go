package proxyconfig

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// workload is a pod or a machine.
type workload struct {
	id                  string
	Proxy               string   `json:"proxy,omitempty"` // NAME.NAMESPACE; empty: it has no connected proxy
	Address             string   `json:"address"`
	Identity            string   `json:"identity,omitempty"`
	Version             string   `json:"version,omitempty"`
	Labels              string   `json:"labels,omitempty"`
	MutualTLS           string   `json:"mutualTLS,omitempty"` // STRICT, PERMISSIVE or DISABLE; several, by port, if ports differ
	PeerAuthentications []string `json:"peerAuthentications,omitempty"`
	Policies            []string `json:"policies,omitempty"` // the other objects that its inbound listener was made from
}

// service is a host of a registry.
type service struct {
	Host       mesh.Host       `json:"host"`
	Namespace  string          `json:"namespace"`
	Registries []string        `json:"registries"`
	Ports      []page.PortInfo `json:"ports"`
	Endpoints  int             `json:"endpoints"`
	Healthy    int             `json:"healthy"`
	Rules      []rule          `json:"destinationRules,omitempty"`
	Routes     []routing       `json:"virtualServices,omitempty"`
	Exposed    []exposure      `json:"exposed,omitempty"`
}

// rule is a DestinationRule in force.
type rule struct {
	Name     string   `json:"name"` // NAMESPACE/NAME
	TLS      string   `json:"tls,omitempty"`
	Matching []string `json:"matching,omitempty"` // subsets with endpoints, or those that have the workload
	Others   []string `json:"others,omitempty"`
}

// routing is the routes of VirtualServices for a virtual host.
type routing struct {
	Names   string   `json:"names"` // NAME.NAMESPACE
	Domains []string `json:"domains"`
	Routes  []string `json:"routes"`
	Missing bool     `json:"noneMatches,omitempty"` // no route leads to the workload's subsets
}

// exposure is a gateway that leads requests to a service.
type exposure struct {
	Gateway string `json:"gateway"` // NAMESPACE/NAME
	Proxy   string `json:"proxy"`
	Port    string `json:"port"`
	routing
}

// endpointAt returns a host's endpoint at an address.
func endpointAt(h *page.HostInfo, address string) (page.EndpointInfo, bool) {
	for _, p := range h.Parts {
		for _, e := range p.Endpoints {
			if p.Used && e.Address == address {
				return e, true
			}
		}
	}
	return page.EndpointInfo{}, false
}

// merged adds labels, as k=v with commas between, that a list lacks.
func merged(list, more string) string {
	all := slices.DeleteFunc(append(strings.Split(list, ","), strings.Split(more, ",")...), func(s string) bool { return s == "" })
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// selects reports whether labels have all that a selector wants.
func selects(want map[string]string, labels string) bool {
	return mesh.Labels(labels).SelectedBy(mesh.MakeLabels(want))
}

// hostOf returns the subset and host of an outbound cluster.
func hostOf(cluster string) (subset, host string) {
	direction, _, subset, host, _ := mesh.ClusterParts(cluster)
	if direction != "outbound" {
		return "", ""
	}
	return subset, host
}

// service describes a host as a proxy sees it; of a workload, if one is given.
func (v *view) service(h *page.HostInfo, w *workload) *service {
	s := &service{Host: h.Hostname, Namespace: h.Namespace, Ports: h.Ports, Registries: []string{}}
	for _, p := range h.Parts {
		if s.Registries = append(s.Registries, p.Registry); !p.Used {
			continue
		}
		for _, e := range p.Endpoints {
			if s.Endpoints++; e.Health == mesh.Healthy.String() {
				s.Healthy++
			}
		}
	}
	slices.Sort(s.Registries)
	s.Registries = slices.Compact(s.Registries)
	reached := v.subsets(h, w)
	v.findRules(s, w, reached)
	for _, m := range v.routes {
		for _, host := range objects(m.body, "virtualHosts") {
			if names := madeBy(m.made[text(host, "name")]); names != "" {
				s.route(names, host, w, reached)
			}
		}
	}
	return s
}

// subsets returns the subsets of a host that have endpoints, or the workload.
func (v *view) subsets(h *page.HostInfo, w *workload) map[string]bool {
	out := map[string]bool{}
	for _, l := range v.loads {
		subset, host := hostOf(l.name)
		if host != string(h.Hostname) {
			continue
		}
		for _, group := range objects(l.body, "endpoints") {
			for _, e := range objects(group, "lbEndpoints") {
				at := text(object(e, "endpoint", "address", "socketAddress"), "address")
				if w == nil || at == w.Address {
					out[subset] = true
				}
			}
		}
	}
	return out
}

// findRules adds the DestinationRules that the host's clusters were made from.
func (v *view) findRules(s *service, w *workload, reached map[string]bool) {
	seen := map[string]bool{}
	for _, c := range v.clusters {
		if _, host := hostOf(c.name); host != string(s.Host) {
			continue
		}
		for _, name := range ofKind(c.made[c.name], "DestinationRule") {
			if !seen[name] {
				seen[name] = true
				s.Rules = append(s.Rules, v.rule(name, w, reached))
			}
		}
	}
}

func (v *view) rule(name string, w *workload, reached map[string]bool) rule {
	out := rule{Name: name}
	var spec struct {
		TrafficPolicy struct {
			TLS struct {
				Mode string `json:"mode"`
			} `json:"tls"`
		} `json:"trafficPolicy"`
		Subsets []struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"subsets"`
	}
	object, has := v.rules[name]
	written, err := json.Marshal(object.Spec)
	if err != nil || !has || json.Unmarshal(written, &spec) != nil {
		return out // a caller that may not see the object sees its name
	}
	out.TLS = spec.TrafficPolicy.TLS.Mode
	for _, sub := range spec.Subsets {
		if reached[sub.Name] || w != nil && selects(sub.Labels, w.Labels) {
			out.Matching = append(out.Matching, sub.Name)
		} else {
			out.Others = append(out.Others, sub.Name)
		}
	}
	return out
}

// route adds a virtual host if its routes lead to the service.
func (s *service) route(names string, host map[string]any, w *workload, reached map[string]bool) {
	r, leads := s.routing(names, host)
	if !leads {
		return
	}
	r.Missing = w != nil
	for _, one := range objects(host, "routes") {
		for _, to := range destinations(one) {
			if subset, at := hostOf(to.cluster); at == string(s.Host) && (subset == "" || reached[subset]) {
				r.Missing = false
			}
		}
	}
	s.Routes = append(s.Routes, r)
}

func (s *service) routing(names string, host map[string]any) (r routing, leads bool) {
	r = routing{Names: names, Domains: texts(host, "domains")}
	for _, one := range objects(host, "routes") {
		var to []string
		for _, d := range destinations(one) {
			subset, at := hostOf(d.cluster)
			if at == "" {
				continue
			}
			leads = leads || at == string(s.Host)
			if subset != "" {
				at += " subset " + subset
			}
			if d.weight != "" {
				at += " (" + d.weight + ")"
			}
			to = append(to, at)
		}
		if len(to) == 0 {
			to = []string{"answered by the proxy"}
		}
		r.Routes = append(r.Routes, routeMatch(one)+" -> "+strings.Join(to, ", "))
	}
	return r, leads
}

// destination is a cluster that a route leads to.
type destination struct{ cluster, weight string }

func destinations(route map[string]any) (out []destination) {
	action := object(route, "route")
	if name := text(action, "cluster"); name != "" {
		out = append(out, destination{name, ""})
	}
	for _, c := range objects(object(action, "weightedClusters"), "clusters") {
		weight := ""
		if n, is := c["weight"]; is {
			weight = fmt.Sprint(n)
		}
		out = append(out, destination{text(c, "name"), weight})
	}
	return out
}

// expose adds the gateways of a proxy that lead to the service.
func (s *service) expose(proxy string, routes, listeners []message) {
	for _, m := range routes {
		for _, host := range objects(m.body, "virtualHosts") {
			name := text(host, "name")
			if r, leads := s.routing(madeBy(m.made[name]), host); leads {
				s.add(exposure{gatewayOf(m.made[name]), proxy, portOf(m.name, name), r})
			}
		}
	}
	for _, l := range listeners {
		body, err := json.Marshal(l.body)
		if err != nil || !strings.Contains(string(body), "|"+string(s.Host)+`"`) {
			continue
		}
		port := number(object(l.body, "address", "socketAddress"), "portValue")
		s.add(exposure{gatewayOf(l.made[l.name]), proxy, port, routing{Names: madeBy(l.made[l.name]), Routes: []string{"connections"}}})
	}
}

// add adds an exposure that no other replica of the gateway has.
func (s *service) add(e exposure) {
	if !slices.ContainsFunc(s.Exposed, func(o exposure) bool {
		return o.Gateway == e.Gateway && o.Port == e.Port && slices.Equal(o.Domains, e.Domains)
	}) {
		s.Exposed = append(s.Exposed, e)
	}
}

func gatewayOf(made []string) string { return strings.Join(ofKind(made, "Gateway", "Ingress"), ", ") }

// mutual returns which mutual TLS the filter chains of inbound listeners take; by port, where ports differ.
func (v *view) mutual() string {
	secure, plain := map[string]bool{}, map[string]bool{}
	for _, l := range v.listeners {
		if text(l.body, "trafficDirection") != "INBOUND" {
			continue
		}
		for _, c := range objects(l.body, "filterChains") {
			port := number(object(c, "filterChainMatch"), "destinationPort")
			if port == "" {
				port = number(object(l.body, "address", "socketAddress"), "portValue")
			}
			if strings.HasSuffix(text(c, "name"), "-blackhole") {
				continue
			}
			to := plain
			if c["transportSocket"] != nil {
				to = secure
			}
			to[port] = true
		}
	}
	modes := map[string][]string{}
	for port := range secure {
		mode := "STRICT"
		if plain[port] {
			mode = "PERMISSIVE"
		}
		modes[mode] = append(modes[mode], port)
	}
	for port := range plain {
		if !secure[port] {
			modes["DISABLE"] = append(modes["DISABLE"], port)
		}
	}
	var out []string
	for _, mode := range []string{"STRICT", "PERMISSIVE", "DISABLE"} {
		if ports := modes[mode]; len(ports) > 0 {
			slices.Sort(ports)
			if out = append(out, mode); len(modes) > 1 {
				out[len(out)-1] += " (port " + strings.Join(ports, ", ") + ")"
			}
		}
	}
	return strings.Join(out, ", ")
}

// lines is the text for people, in the form of istioctl's.
type lines struct{ strings.Builder }

func (l *lines) line(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

const between = "--------------------"

func (d *description) write(w io.Writer) error {
	var b lines
	if p := d.Workload; p != nil {
		b.line("Pod: %s", output.OrDash(p.Proxy))
		b.line("   Address: %s", p.Address)
		b.line("   Labels: %s", output.OrDash(p.Labels))
		if p.Identity != "" {
			b.line("   Identity: %s", p.Identity)
		}
		if p.id == "" {
			b.line("   No proxy of it is connected: its policies are not known")
		}
		if len(d.Services) == 0 {
			b.line("   No service has it as an endpoint")
		}
	}
	for i, s := range d.Services {
		if i > 0 || d.Workload != nil {
			b.line(between)
		}
		s.write(&b, d.Workload != nil)
	}
	if d.From == "" {
		b.line("No proxy is connected: rules and routes are not known")
	}
	if p := d.Workload; p != nil && p.id != "" {
		b.line(between)
		b.line("Effective PeerAuthentication:")
		b.line("   Workload mTLS mode: %s", output.OrDash(p.MutualTLS))
		if len(p.PeerAuthentications) > 0 {
			b.line("Applied PeerAuthentication: %s", strings.Join(p.PeerAuthentications, ", "))
		}
		for _, o := range p.Policies {
			b.line("Policy: %s", o)
		}
	} else if d.From != "" {
		b.line("Rules and routes are those that %s has", d.From)
	}
	_, err := io.WriteString(w, printable.Lines(b.String(), 1<<20))
	return err
}

func (s *service) write(b *lines, ofPod bool) {
	b.line("Service: %s", s.Host)
	b.line("   Namespace: %s, from %s; %d of %d endpoints healthy", s.Namespace, strings.Join(s.Registries, ", "), s.Healthy, s.Endpoints)
	for _, p := range s.Ports {
		target := p.Target
		if target == 0 {
			target = p.Port
		}
		b.line("   Port: %s %d/%s targets port %d", output.OrDash(p.Name), p.Port, p.Protocol, target)
	}
	for _, r := range s.Rules {
		b.line("DestinationRule: %s for %q", r.Name, s.Host)
		if len(r.Matching) > 0 {
			b.line("   Matching subsets: %s", strings.Join(r.Matching, ", "))
		}
		if len(r.Others) > 0 {
			why := "no endpoint"
			if ofPod {
				why = "not of this workload"
			}
			b.line("   (Non-matching subsets: %s: %s)", strings.Join(r.Others, ", "), why)
		}
		if r.TLS == "" {
			b.line("   No Traffic Policy TLS Mode")
		} else {
			b.line("   Traffic Policy TLS Mode: %s", r.TLS)
		}
	}
	for _, r := range s.Routes {
		b.line("VirtualService: %s for %s", r.Names, few(r.Domains, mostDomains))
		r.write(b)
	}
	for _, e := range s.Exposed {
		b.line("Exposed on Gateway %s, port %s, by %s", output.OrDash(e.Gateway), output.OrDash(e.Port), e.Proxy)
		if e.Names != "" {
			b.line("VirtualService: %s for %s", e.Names, output.OrDash(few(e.Domains, mostDomains)))
		}
		e.routing.write(b)
	}
}

func (r routing) write(b *lines) {
	for _, one := range r.Routes {
		b.line("   %s", one)
	}
	if r.Missing {
		b.line("   WARNING: no route leads to a subset that this workload is of")
	}
}
