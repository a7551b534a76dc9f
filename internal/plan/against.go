package plan

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/plan/remote"
	"fairway/internal/snapshot"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// MostAsked is how many proxies another control plane is asked about: one of those that see the same.
const MostAsked = 100

// compared are the types that control planes are compared by.
var compared = []xdstype.Type{xdstype.Clusters, xdstype.Loads, xdstype.Listeners, xdstype.Routes}

// Against returns what another control plane would send the proxies of a snapshot differently from the snapshot's own. ask asks it about
// one proxy. Resources are compared as messages, not as bytes. It fails if an answer does, or if there are more than MostAsked sorts of
// proxies.
func Against(
	ctx context.Context, s *snapshot.Snapshot, ask func(context.Context, mesh.Proxy) (remote.Resources, error),
) (out *Plan, err error) {
	w, err := snapshot.Load(s)
	if err != nil {
		return nil, err
	}
	a := against{own: map[mesh.ProxyID]map[resource]*envoy.Encoded{}, other: map[mesh.ProxyID]map[resource]*envoy.Encoded{}}
	var one []mesh.Proxy                     // of those that see the same
	alike := map[mesh.ProxyID]mesh.ProxyID{} // each proxy's
	connected := 0
	w.Graph.Store.Read(func(tx *table.Tx) {
		v, first := newView(tx, w.Graph), map[string]mesh.ProxyID{}
		connected = table.Len(tx, w.Graph.Out.Attachments)
		for id := range table.All(tx, w.Graph.Out.Attachments) {
			key, sees := v.of(id)
			if id.IsRouter() {
				key = "router " + key
			}
			if _, has := first[key]; !has {
				p, _ := table.Lookup(tx, w.Graph.In.Proxies.Table, id)
				first[key], a.own[id] = id, whole(sees)
				one = append(one, p)
			}
			alike[id] = first[key]
		}
	})
	if len(one) > MostAsked {
		return nil, fmt.Errorf("%d sorts of proxies are connected, and %d can be compared: plan with --proxy for some of them",
			len(one), MostAsked)
	}
	for _, p := range one {
		sent, err := ask(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("ask about %s: %w", p.ID, err)
		}
		if a.other[p.ID], err = canonical(sent); err != nil {
			return nil, err
		}
	}
	out = gather(a.differences(alike)).plan(func(id mesh.ProxyID, typ xdstype.Type, name string) *envoy.Encoded {
		return a.other[alike[id]][resource{typ, name}]
	})
	out.Connected = connected
	return out, nil
}

// against holds what both control planes send one proxy of each sort.
type against struct {
	own, other map[mesh.ProxyID]map[resource]*envoy.Encoded
}

func (a against) differences(alike map[mesh.ProxyID]mesh.ProxyID) iter.Seq2[[]mesh.ProxyID, iter.Seq[trial.Difference]] {
	ids := map[mesh.ProxyID][]mesh.ProxyID{}
	for _, id := range slices.Sorted(maps.Keys(alike)) {
		ids[alike[id]] = append(ids[alike[id]], id)
	}
	return func(yield func([]mesh.ProxyID, iter.Seq[trial.Difference]) bool) {
		for one, all := range ids {
			if !yield(all, slices.Values(differing(a.own[one], a.other[one]))) {
				return
			}
		}
	}
}

// whole returns the resources as a client of the state-of-the-world protocol gets them: route configurations with their virtual hosts. Load
// assignments and route configurations that nothing names are left out, as such a client does not ask for them.
func whole(sees map[resource]*envoy.Encoded) map[resource]*envoy.Encoded {
	messages := remote.Resources{}
	for _, typ := range compared {
		messages[typ] = map[string]proto.Message{}
	}
	hosts := map[string]*routev3.VirtualHost{}
	for r, e := range sees {
		m := message(r.typ, e)
		if v, is := m.(*routev3.VirtualHost); is {
			hosts[r.name] = v
		}
		if messages[r.typ] != nil && m != nil {
			messages[r.typ][r.name] = m
		}
	}
	for name := range messages[xdstype.Routes] {
		e := sees[resource{xdstype.Routes, name}]
		if e.WithoutVHDS == nil {
			continue
		}
		m := &routev3.RouteConfiguration{}
		if proto.Unmarshal(e.WithoutVHDS.Body, m) != nil {
			continue // these bytes were made here
		}
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			if strings.HasPrefix(host, e.WithoutVHDS.Prefix) {
				m.VirtualHosts = append(m.VirtualHosts, hosts[host])
			}
		}
		messages[xdstype.Routes][name] = m
	}
	out, err := canonical(messages.Named())
	if err != nil {
		return nil // these messages were read from bytes
	}
	return out
}

// canonical encodes messages so that equal ones have equal bytes. Virtual hosts are in order of their names.
func canonical(all remote.Resources) (map[resource]*envoy.Encoded, error) {
	out := map[resource]*envoy.Encoded{}
	for _, typ := range compared {
		for name, m := range all[typ] {
			if r, is := m.(*routev3.RouteConfiguration); is {
				slices.SortFunc(r.GetVirtualHosts(), compareHosts)
			}
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				return nil, fmt.Errorf("write %s %s: %w", typ, name, err)
			}
			out[resource{typ, name}] = envoy.Sealed(body, nil)
		}
	}
	return out, nil
}

// compareHosts orders virtual hosts by name.
func compareHosts(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) }
