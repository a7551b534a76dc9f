package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Weighted is one destination's share of connections.
type Weighted struct {
	Cluster mesh.ClusterKey
	Weight  uint32 // 1 for the only one
}

// Chain holds the connections that one match of a tcp or tls route takes, and their destinations. No two chains of a list take the same
// connection.
type Chain struct {
	SNI      []string // server names, sorted; "*.example.com" for all below it. Empty: any, or none sent
	Subnets  []string // destination addresses in CIDR form, sorted; empty: any
	Clusters []Weighted
	Field    string // the match that it comes from
}

// CatchAll reports whether the chain takes every connection.
func (c Chain) CatchAll() bool { return len(c.SNI) == 0 && len(c.Subnets) == 0 }

// TCP translates the tcp part of a VirtualService for the viewer.
func (b *Builder) TCP(rule Rule) []Chain {
	var out chains
	for i, r := range rule.Spec.GetTcp() {
		field := index("spec.tcp", i)
		to := b.weighted(rule, field+".route", r.GetRoute())
		if len(r.GetMatch()) == 0 {
			out.take(b, Chain{Clusters: to, Field: field}, (*networking.L4MatchAttributes)(nil))
		}
		for j, m := range r.GetMatch() {
			at := index(field+".match", j)
			b.viewerMistakes(rule, at, m)
			if m.GetSourceSubnet() != "" {
				b.problem(mesh.Warning, code.Unused, at+".sourceSubnet",
					"the field does nothing, as with Istio: connections from anywhere match",
					"tell clients by sourceLabels or sourceNamespace")
			}
			if subnets, ok := b.subnets(at+".destinationSubnets", m.GetDestinationSubnets()); ok && b.Viewer.applies(rule, m) {
				out.take(b, Chain{Subnets: subnets, Clusters: to, Field: at}, m)
			}
		}
	}
	return out.list
}

// TLS translates the tls part of a VirtualService for the viewer.
func (b *Builder) TLS(rule Rule) []Chain {
	var out chains
	for i, r := range rule.Spec.GetTls() {
		field := index("spec.tls", i)
		to := b.weighted(rule, field+".route", r.GetRoute())
		for j, m := range r.GetMatch() {
			at := index(field+".match", j)
			b.viewerMistakes(rule, at, m)
			subnets, ok := b.subnets(at+".destinationSubnets", m.GetDestinationSubnets())
			names, good := b.serverNames(at+".sniHosts", m.GetSniHosts())
			if ok && good && b.Viewer.applies(rule, m) {
				out.take(b, Chain{SNI: names, Subnets: subnets, Clusters: to, Field: at}, m)
			}
		}
	}
	return out.list
}

// weighted lists the destinations of a route with their weights; it is empty if connections go nowhere.
func (b *Builder) weighted(rule Rule, field string, in []*networking.RouteDestination) []Weighted {
	var out []Weighted
	total := uint64(0)
	for i, d := range in {
		w := uint32(max(d.GetWeight(), 0))
		if len(in) == 1 {
			w = 1
		}
		if w == 0 {
			continue
		}
		total += uint64(w)
		out = append(out, Weighted{Cluster: b.target(rule, index(field, i)+".destination", d.GetDestination()).Cluster, Weight: w})
	}
	if total == 0 || total > 1<<32-1 {
		b.problem(mesh.Error, code.BadWeights, field,
			"the weights add up to "+strconv.FormatUint(total, 10)+": connections are closed",
			"give at least one destination a weight; they may add up to 4294967295")
		return nil
	}
	return out
}

// subnets parses addresses and ranges into canonical form. It returns false if one is invalid: then the match is left out.
func (b *Builder) subnets(field string, in []string) ([]string, bool) {
	ok := true
	var out []string
	for i, s := range in {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(s); err == nil {
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil {
			b.problem(mesh.Error, code.BadSubnet, index(field, i),
				quote(s)+" is neither an address nor a range of addresses: this match is left out", "write 10.1.0.0/16 or 10.1.2.3")
			ok = false
			continue
		}
		out = append(out, p.Masked().String())
	}
	slices.Sort(out)
	return slices.Compact(out), ok
}

// serverNames parses sniHosts. If they contain "*", there is no condition.
func (b *Builder) serverNames(field string, in []string) ([]string, bool) {
	if slices.Contains(in, "*") {
		return nil, true
	}
	ok := len(in) > 0
	var out []string
	for i, s := range in {
		if s == "" || strings.Contains(strings.TrimPrefix(s, "*."), "*") || !text(s) {
			b.problem(mesh.Error, code.BadServerName, index(field, i), quote(s)+" is not a server name: this match is left out",
				"a wildcard matches whole labels at the front: *.example.com")
			ok = false
			continue
		}
		out = append(out, strings.ToLower(s))
	}
	slices.Sort(out)
	return slices.Compact(out), ok
}

// chains removes from each chain the connections that an earlier one takes: Envoy refuses a listener with two equal matches.
type chains struct {
	list    []Chain
	used    map[matchKey]struct{}
	circles circles
}

// matchKey is a key of the connections that a match takes: those to a subnet, with a server name, from a circle.
type matchKey struct {
	subnet, name string
	circle       circle
}

// take adds the part of a match's chain that no earlier one takes. If it adds nothing for any viewer, it notes that.
func (c *chains) take(b *Builder, in Chain, m conditions) {
	if c.used == nil {
		c.used, c.circles = map[matchKey]struct{}{}, circles{}
	}
	var whose circle
	if b.Viewer.Every {
		whose = c.circles.of(m)
	}
	wider := whose.widened()
	before := len(c.list)
	for _, subnet := range orAny(in.Subnets) {
		var names []string
		for _, name := range orAny(in.SNI) {
			if !c.has(subnet, name, wider) {
				c.used[matchKey{subnet, name, whose}] = struct{}{}
				names = append(names, name)
			}
		}
		c.put(in, subnet, names, before)
	}
	if len(c.list) == before && b.Viewer.Every {
		b.problem(mesh.Warning, code.UnreachableRoute, in.Field, "no connection gets here: an earlier match takes every one", "")
	}
}

// has reports whether an earlier match takes connections from one of the circles.
func (c *chains) has(subnet, name string, from []circle) bool {
	for _, whose := range from {
		if _, has := c.used[matchKey{subnet, name, whose}]; has {
			return true
		}
	}
	return false
}

// put adds a chain for one subnet, or extends the one just added if it takes the same names.
func (c *chains) put(in Chain, subnet string, names []string, before int) {
	if len(names) == 0 {
		return
	}
	if names[0] == "" {
		names = nil
	}
	if last := len(c.list) - 1; last >= before && slices.Equal(c.list[last].SNI, names) {
		c.list[last].Subnets = append(c.list[last].Subnets, subnet)
		return
	}
	in.SNI, in.Subnets = names, nil
	if subnet != "" {
		in.Subnets = []string{subnet}
	}
	c.list = append(c.list, in)
}

// orAny returns list, or one empty term if list is empty.
func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}
