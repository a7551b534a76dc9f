package traffic

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// VirtualService holds the rules of https://istio.io/latest/docs/reference/config/networking/virtual-service/ that
// the schema cannot say.
func VirtualService(c *rule.Check, vs *networking.VirtualService) {
	at := report.Spec()
	checkHosts(c, at, vs)
	gateways := at.Key("gateways")
	checkGatewayNames(c, &gateways, vs.Gateways)
	export := at.Key("exportTo")
	c.ExportTo(&export, vs.ExportTo, false)
	if len(vs.Http)+len(vs.Tls)+len(vs.Tcp) == 0 {
		c.Fail(*at, code.NoRoute, "there is no route", "add http, tls or tcp routes")
	}
	for i, r := range vs.Http {
		here := at.Of("http", i)
		checkHTTPRoute(c, &here, r,
			usage{delegate: len(vs.Hosts) == 0, gateways: slices.ContainsFunc(vs.Gateways, func(g string) bool { return g != "mesh" })})
	}
	if len(vs.Tls) > 0 {
		hosts := make(map[mesh.Host]bool, len(vs.Hosts))
		for _, h := range vs.Hosts {
			hosts[mesh.Host(h)] = true
		}
		for i, r := range vs.Tls {
			here := at.Of("tls", i)
			checkTLSRoute(c, &here, r, hosts)
		}
	}
	for i, r := range vs.Tcp {
		here := at.Of("tcp", i)
		checkTCPRoute(c, &here, r)
	}
	warnUnreachable(c, at, vs.Http)
}

// checkHosts also checks that a delegate has neither hosts nor gateways, which distinguishes it from other rules.
func checkHosts(c *rule.Check, at *report.Path, vs *networking.VirtualService) {
	if len(vs.Hosts) == 0 {
		switch {
		case len(vs.Gateways) > 0:
			c.Fail(at.Key("gateways"), code.BadDelegate,
				"a VirtualService without hosts is a delegate, and a delegate has no gateways",
				"give it hosts or leave gateways out")
		case len(vs.Tcp)+len(vs.Tls) > 0:
			c.Fail(*at, code.NoHost, "tcp and tls routes need hosts", "name the hosts")
		}
		return
	}
	inMesh := len(vs.Gateways) == 0 || slices.Contains(vs.Gateways, "mesh")
	seen := overlaps{first: map[mesh.Host]int{}, below: map[mesh.Host]int{}}
	for i, h := range vs.Hosts {
		here := at.Of("hosts", i)
		if !rule.IsIP(h) {
			checkHost(c, here, h)
		}
		if strings.Contains(h, "_") && !strings.HasPrefix(h, "outbound_.") {
			c.Fail(here, code.BadHost, strconv.Quote(h)+" has an underscore, which host names have not", "")
		}
		if j, ok := seen.find(mesh.Host(h)); ok {
			c.Fail(here, code.Duplicate, fmt.Sprintf("%q and hosts[%d], %q, overlap", h, j, vs.Hosts[j]), "keep the wildcard alone")
		}
		if h == "*" && inMesh {
			c.Fail(here, code.BadHost, `host "*" would take all traffic of the mesh`, "name hosts, or bind it to a gateway only")
		}
		if _, twice := seen.first[mesh.Host(h)]; twice {
			c.Fail(here, code.Duplicate, "host "+strconv.Quote(h)+" is written twice", "keep one of the two")
		}
		seen.add(mesh.Host(h), i)
	}
}

// overlaps finds hosts that a wildcard of the same list covers. A list of n hosts costs n lookups for each label of a host, because
// a list may have as many hosts as fit into an object.
type overlaps struct {
	first map[mesh.Host]int // the first index of a host
	below map[mesh.Host]int // the first index of a host that a wildcard covers
}

// longestHost is the longest valid host: longer ones are refused, and have too many wildcards to compare.
const longestHost = 253

// find returns the first host that was added and that overlaps with h.
func (o *overlaps) find(h mesh.Host) (at int, ok bool) {
	if len(h) > longestHost {
		return 0, false
	}
	if h.IsWildcard() {
		at, ok = o.below[h]
	}
	for _, wild := range h.Wildcards() {
		if j, has := o.first[wild]; has && (!ok || j < at) {
			at, ok = j, true
		}
	}
	return at, ok
}

// add notes the host at place i of the list.
func (o *overlaps) add(h mesh.Host, i int) {
	if _, has := o.first[h]; has {
		return
	}
	o.first[h] = i
	if len(h) > longestHost {
		return
	}
	for _, wild := range h.Wildcards() {
		if _, has := o.below[wild]; !has {
			o.below[wild] = i
		}
	}
}

// usage says how the http routes of a VirtualService are used, which decides the checks.
type usage struct {
	delegate bool // other VirtualServices delegate to it, and say for which gateways
	gateways bool // it is bound to a gateway
}

func checkHTTPRoute(c *rule.Check, at *report.Path, r *networking.HTTPRoute, whose usage) {
	checkHTTPAction(c, at, r, whose.delegate)
	for i, m := range r.Match {
		here := at.Of("match", i)
		checkHTTPMatch(c, &here, m, whose.delegate || whose.gateways)
	}
	for i, d := range r.Route {
		here := at.Of("route", i)
		checkDestination(c, here.Key("destination"), d.Destination)
		headers := here.Key("headers")
		checkHeaders(c, &headers, d.Headers)
	}
	weights := make([]int32, len(r.Route))
	for i, d := range r.Route {
		weights[i] = d.Weight
	}
	checkWeights(c, at, weights)
	headers := at.Key("headers")
	checkHeaders(c, &headers, r.Headers)
	checkFault(c, at, r.Fault)
	checkMirrors(c, at, r)
	c.Duration(at.Key("timeout"), r.Timeout, time.Millisecond)
	Retries(c, at, r.Retries)
	checkRewrite(c, at, r.Rewrite)
	checkAuthority(c, at, r)
	checkRedirect(c, at, r)
	checkDirectResponse(c, at, r.DirectResponse)
	checkCors(c, at, r.CorsPolicy)
}

// checkHTTPAction: exactly one thing happens to a request that matches.
func checkHTTPAction(c *rule.Check, at *report.Path, r *networking.HTTPRoute, delegate bool) {
	var actions []string
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"route", len(r.Route) > 0},
		{"redirect", r.Redirect != nil},
		{"directResponse", r.DirectResponse != nil},
		{"delegate", r.Delegate != nil},
	} {
		if a.set {
			actions = append(actions, a.name)
		}
	}
	switch {
	case len(actions) == 0:
		c.Fail(*at, code.NoRoute, "the route leads nowhere", "give it a route, redirect, directResponse or delegate")
	case len(actions) > 1:
		c.Fail(at.Key(actions[1]), code.Conflict, actions[0]+" and "+actions[1]+" exclude each other", "keep one of the two")
	case delegate && r.Delegate != nil:
		c.Fail(at.Key("delegate"), code.BadDelegate, "a delegate cannot delegate", "put its routes here")
	case r.Delegate != nil && r.Delegate.Name == "":
		c.Fail(at.Key("delegate"), code.Missing, "the delegate has no name", "")
	}
	if r.Redirect != nil || r.DirectResponse != nil {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"rewrite", r.Rewrite != nil},
			{"fault", r.Fault != nil && r.DirectResponse == nil},
			{"mirror", r.Mirror != nil},
			{"retries", r.Retries != nil && r.DirectResponse != nil},
		} {
			if f.set && len(actions) == 1 {
				c.Fail(at.Key(f.name), code.Conflict, actions[0]+" and "+f.name+" exclude each other", "leave "+f.name+" out")
			}
		}
	}
}

// checkWeights: weights are shares of their sum; one destination may leave its own out.
func checkWeights(c *rule.Check, at *report.Path, weights []int32) {
	var sum int64
	for i, w := range weights {
		here := at.Of("route", i)
		if w < 0 {
			c.Fail(here.Key("weight"), code.BadWeight, fmt.Sprintf("weight %d is negative", w), "write 0 or more")
		}
		sum += int64(w)
	}
	if len(weights) > 1 && sum == 0 {
		c.Fail(at.Key("route"), code.BadWeight, "the weights of all destinations are 0", "give each a share of 100")
	}
	if sum > math.MaxUint32 {
		c.Fail(at.Key("route"), code.BadWeight, fmt.Sprintf("the weights add up to %d", sum), "give each a share of 100")
	}
}

func checkDestination(c *rule.Check, at report.Path, d *networking.Destination) {
	if d == nil {
		c.Fail(at, code.Missing, "there is no destination", "name a host")
		return
	}
	if d.Host == "*" {
		c.Fail(at.Key("host"), code.BadHost, `a destination cannot be "*"`, "name a host")
	} else if !rule.IsIP(d.Host) {
		checkHost(c, at.Key("host"), d.Host)
	}
	if d.Subset != "" && !isDNSLabel(d.Subset) && !isSubsetName(d.Subset) {
		c.Fail(at.Key("subset"), code.BadName, strconv.Quote(d.Subset)+" is not a subset's name", "write letters, digits, '-', '_' and '.'")
	}
	if d.Port != nil {
		port := at.Key("port")
		c.Port(port.Key("number"), d.Port.Number)
	}
}

func isSubsetName(s string) bool {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return false
		}
	}
	return s != ""
}

func checkTLSRoute(c *rule.Check, at *report.Path, r *networking.TLSRoute, hosts map[mesh.Host]bool) {
	if len(r.Match) == 0 {
		c.Fail(at.Key("match"), code.Missing, "a tls route needs a match", "match sniHosts")
	}
	for i, m := range r.Match {
		here := at.Of("match", i)
		if len(m.SniHosts) == 0 {
			c.Fail(here.Key("sniHosts"), code.Missing, "a tls match needs server names", "add sniHosts")
		}
		for j, sni := range m.SniHosts {
			checkSNI(c, here.Of("sniHosts", j), sni, hosts)
		}
		checkL4(c, &here, m.DestinationSubnets, m.Port, m.Gateways)
	}
	checkL4Routes(c, at, r.Route)
}

// checkSNI: a tls route may only match names that its VirtualService has among its hosts.
func checkSNI(c *rule.Check, at report.Path, sni string, hosts map[mesh.Host]bool) {
	if !rule.IsIP(sni) {
		checkHost(c, at, sni)
	}
	name := mesh.Host(sni)
	if hosts[name] || len(name) <= longestHost && slices.ContainsFunc(name.Wildcards(), func(w mesh.Host) bool { return hosts[w] }) {
		return
	}
	if rule.IsIP(sni) {
		c.Warn(at, code.BadHost, strconv.Quote(sni)+" is an address: clients send names, and this is not among the hosts",
			"match a name of spec.hosts")
		return
	}
	c.Fail(at, code.BadHost, strconv.Quote(sni)+" is not among the hosts", "add it to spec.hosts")
}

func checkTCPRoute(c *rule.Check, at *report.Path, r *networking.TCPRoute) {
	for i, m := range r.Match {
		here := at.Of("match", i)
		checkL4(c, &here, m.DestinationSubnets, m.Port, m.Gateways)
		if m.SourceSubnet != "" && !rule.IsCIDR(m.SourceSubnet) {
			c.Fail(here.Key("sourceSubnet"), code.BadAddress, strconv.Quote(m.SourceSubnet)+" is not an address or CIDR", "")
		}
	}
	checkL4Routes(c, at, r.Route)
}

func checkL4(c *rule.Check, at *report.Path, subnets []string, port uint32, gateways []string) {
	for i, s := range subnets {
		if !rule.IsCIDR(s) {
			c.Fail(at.Of("destinationSubnets", i), code.BadAddress, strconv.Quote(s)+" is not an address or CIDR", "write 10.1.2.0/24")
		}
	}
	if port != 0 {
		c.Port(at.Key("port"), port)
	}
	here := at.Key("gateways")
	checkGatewayNames(c, &here, gateways)
}

func checkL4Routes(c *rule.Check, at *report.Path, routes []*networking.RouteDestination) {
	if len(routes) == 0 {
		c.Fail(*at, code.NoRoute, "the route leads nowhere", "give it a route")
	}
	weights := make([]int32, len(routes))
	for i, d := range routes {
		here := at.Of("route", i)
		checkDestination(c, here.Key("destination"), d.Destination)
		weights[i] = d.Weight
	}
	checkWeights(c, at, weights)
}
