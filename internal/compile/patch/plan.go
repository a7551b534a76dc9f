package patch

import (
	"cmp"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy/amend"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// plan is the patches of one set (Tables.Of), read once for all that they may change. It is immutable.
type plan struct {
	gateway bool
	patches []planned // in the order of their application
	adds    []string  // sorted names of the clusters that they add
	byType  [xdstype.Types]finder
	joint   map[int]*joint // of clusters, by the place of the first
}

// joint is a run of consecutive patches, among those of clusters that name nothing, applied as one.
type joint struct {
	*amend.Joint
	places []int    // in plan.patches
	names  []string // as Encoded.Amended has them
}

type planned struct {
	*amendment
	key  key
	name string // as Encoded.Amended has it
}

// finder finds the patches that may change a resource of one type, by the names in their matches.
type finder struct {
	by     map[amend.Hook][]int // places in plan.patches, ascending
	ports  []int                // those that name a port
	inside bool                 // some name something in the message, not its name
	all    []string             // the names of the patches that name nothing
}

func samePlan(a, b *plan) bool {
	return slices.EqualFunc(a.patches, b.patches, func(x, y planned) bool { return x.key == y.key && x.of == y.of })
}

// declarePlans declares the plans of the sets that are for connected proxies.
func (t *Tables) declarePlans(proxies *demand.Tables) {
	once := table.Keys(proxies.Singular, "patches/wanted", cmp.Compare[string], func(_ mesh.ProxyID, p demand.Placement) []string {
		set := Holding.At(p)
		if set == "" {
			return nil
		}
		return []string{set}
	}).SkipInOrigins()
	t.plans = table.Derive(once, "patches/plans", cmp.Compare[string], samePlan,
		func(r *table.Reader, set string, _ struct{}, emit func(string, *plan)) { emit(set, t.plan(r, set)) })
}

// hooks return the key under which a patch is found by the resources of a type that it may change.
var hooks = map[xdstype.Type]func(*amend.Patch) (amend.Hook, bool){
	xdstype.Clusters:     (*amend.Patch).ClusterHook,
	xdstype.Listeners:    (*amend.Patch).ListenerHook,
	xdstype.Routes:       (*amend.Patch).RoutesHook,
	xdstype.VirtualHosts: (*amend.Patch).HostHook,
}

func (t *Tables) plan(r *table.Reader, set string) *plan {
	gateway, keys := keysOf(set)
	p := &plan{gateway: gateway}
	for _, k := range keys {
		a, ok := table.Get(r, t.read, k)
		if !ok {
			continue
		}
		at, name := len(p.patches), k.String()
		p.patches = append(p.patches, planned{a, k, name})
		if a.adds != "" {
			p.adds = append(p.adds, a.adds)
		}
		for typ, hookOf := range hooks {
			if hook, ok := hookOf(a.Patch); ok {
				p.byType[typ].add(hook, at, name)
			}
		}
	}
	slices.Sort(p.adds)
	p.join()
	return p
}

// fewJoint patches are not worth joining.
const fewJoint = 8

// join finds the runs of patches of all clusters that can be applied as one.
func (p *plan) join() {
	var now *joint
	keep := func() {
		if now != nil && len(now.places) >= fewJoint {
			if p.joint == nil {
				p.joint = map[int]*joint{}
			}
			p.joint[now.places[0]] = now
		}
	}
	for _, i := range p.byType[xdstype.Clusters].by[amend.Hook{}] {
		one := p.patches[i]
		if now == nil || !now.Add(one.Patch) {
			keep()
			now = nil
			if first := amend.NewJoint(one.Patch); first != nil {
				now = &joint{Joint: first}
			}
		}
		if now != nil {
			now.places, now.names = append(now.places, i), append(now.names, one.name)
		}
	}
	keep()
}

// jointOf returns the run of patches that a list begins with; nil: there is none, or some other patch comes between.
func (c *changing) jointOf(list []int) *joint {
	if c.typ != xdstype.Clusters {
		return nil
	}
	j := c.plan.joint[list[0]]
	if j == nil || len(j.places) > len(list) || !slices.Equal(j.places, list[:len(j.places)]) {
		return nil
	}
	return j
}

func (f *finder) add(hook amend.Hook, at int, name string) {
	if f.by == nil {
		f.by = map[amend.Hook][]int{}
	}
	f.by[hook] = append(f.by[hook], at)
	f.inside = f.inside || hook.Inside()
	if hook.OfAddress() {
		f.ports = append(f.ports, at)
	}
	if hook == (amend.Hook{}) {
		f.all = append(f.all, name)
	}
}

// find returns the patches that have one of the hooks, in order.
func (f *finder) find(hooks []amend.Hook, also []int) []int {
	out := f.by[amend.Hook{}]
	if len(hooks) > 0 || len(also) > 0 {
		out = slices.Concat(out, also)
		for _, h := range hooks {
			if h != (amend.Hook{}) {
				out = append(out, f.by[h]...)
			}
		}
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out
}

// candidates are the patches that may change a resource, in order.
func (c *changing) candidates() ([]int, error) {
	f := &c.plan.byType[c.typ]
	if len(f.by) == 0 {
		return nil, nil
	}
	var hooks []amend.Hook
	switch c.typ {
	case xdstype.Clusters:
		hooks = amend.ClusterHooks(c.name)
	case xdstype.Listeners:
		hooks = amend.ListenerHooks(c.name)
	case xdstype.Routes:
		hooks = amend.RoutesHooks(c.name)
	case xdstype.VirtualHosts:
		hooks = amend.HostHooks(c.routes(), c.name)
	}
	if !f.inside || c.typ == xdstype.Clusters && c.context(amend.ClusterContext(c.name)) != amend.Inbound {
		return f.find(hooks, nil), nil
	}
	if err := c.decode(); err != nil {
		return nil, err
	}
	var also []int
	switch m := c.message.(type) {
	case *clusterv3.Cluster:
		hooks = append(hooks, amend.ServiceHooks(m)...)
	case *listenerv3.Listener:
		ports, all := amend.PortHooks(m)
		if hooks = append(hooks, ports...); all {
			also = f.ports
		}
	case *routev3.VirtualHost:
		hooks = append(hooks, amend.DomainHooks(m)...)
	}
	return f.find(hooks, also), nil
}
