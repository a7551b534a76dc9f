package convert

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/ctl/convert/block"
	"fairway/internal/mesh"
)

// inOrder returns the matches so that the Gateway API tries them in the same order. If a later match would overtake an earlier one, the
// rule of the earlier one also gets a match for what both take: that is as specific as the later one, and in an earlier rule. If that is
// not possible, the later match is lost. Rules in fixed get no further matches.
func (w *work) inOrder(list []*block.Match, fixed map[int]bool) (out []*block.Match) {
	if len(list) > block.Most {
		w.lose("spec.http", fmt.Sprintf("%d match blocks are too many to compare their order, which the Gateway API decides", len(list)),
			"divide the VirtualService")
		return nil
	}
	for _, m := range list {
		longer, ok := block.KeepBack(out, m, fixed)
		if !ok {
			w.lose(m.Field, fmt.Sprintf("it would take requests that %s takes now: the Gateway API prefers the more specific match, "+
				"not the first one", block.Overtakes(out, m).Field), "write conditions that no request meets both of")
			continue
		}
		out = append(longer, m)
	}
	return out
}

// hostKey names a host of a listener, or of a service.
type hostKey struct {
	target string // of a listener; empty: a service
	host   mesh.Host
}

// claim is what a VirtualService takes of the requests for a host.
type claim struct {
	*work
	matches []*block.Match
}

func (c *claim) catchAll() bool { return slices.ContainsFunc(c.matches, (*block.Match).CatchAll) }

// compareHosts finds VirtualServices that hold together for a host, and would not in the Gateway API.
func (c *converter) compareHosts() {
	keys := make([]hostKey, 0, len(c.hosts))
	for k := range c.hosts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b hostKey) int { return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.host, b.host)) })
	for _, k := range keys {
		claims := c.hosts[k]
		if k.target == "" {
			for _, younger := range claims[1:] {
				if younger.work == claims[0].work {
					continue // for another port
				}
				younger.bar("spec.hosts", fmt.Sprintf("VirtualService %s/%s has the host %s, and only its rules count; in the Gateway API "+
					"both would", claims[0].from.Namespace, claims[0].from.Name, k.host), "delete it, or merge the two")
			}
			continue
		}
		compareClaims(claims)
		for _, above := range k.host.Wildcards() {
			for _, wider := range c.hosts[hostKey{k.target, above}] {
				if len(wider.matches) > 0 && wider.work != claims[0].work && !slices.ContainsFunc(claims, (*claim).catchAll) {
					claims[0].bar("spec.hosts", fmt.Sprintf("requests for %s that no rule takes are answered 404; in the Gateway API the "+
						"rules of VirtualService %s/%s for %s take them", k.host, wider.from.Namespace, wider.from.Name, above),
						"add a last rule without match")
				}
			}
		}
	}
}

// compareClaims compares the order of matches of all VirtualServices for a host of a listener. Matches that take every request come last
// there, and the first of them counts.
func compareClaims(claims []*claim) {
	var earlier []*block.Match
	total, last := 0, false
	for _, c := range claims {
		if total += len(c.matches); total > block.Most {
			c.bar("spec.hosts", "too many match blocks of several VirtualServices have the host to compare their order", "")
			return
		}
		for _, m := range c.matches {
			switch e := block.Overtakes(earlier, m); {
			case m.CatchAll() && last:
				c.bar(m.Field, "a rule of another VirtualService for the host takes its requests", "leave the rule out")
			case m.CatchAll():
				last = true
				continue
			case e != nil:
				c.bar(m.Field, "it would take requests that a rule of another VirtualService for the host takes now", "merge the two")
			}
		}
		for _, m := range c.matches {
			if !m.CatchAll() {
				one := *m
				one.Rule = -1 // of another object than what follows
				earlier = append(earlier, &one)
			}
		}
	}
}

// claims records what a VirtualService takes at its parents.
func (w *work) claims(spec *networking.VirtualService, parents []*parent, all []*block.Match) {
	for _, p := range parents {
		k := hostKey{p.target(), p.host}
		hosts := []mesh.Host{p.host}
		if p.gateway == nil {
			k.target = "" // of all ports
		} else {
			hosts = w.common(p.listener, spec)
		}
		for _, k.host = range hosts {
			w.hosts[k] = append(w.hosts[k], &claim{w, all})
		}
	}
}
