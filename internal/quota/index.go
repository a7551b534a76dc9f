package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

func delegateKey(root *config.Object, d *networking.Delegate) config.Key {
	return config.Key{Kind: config.VirtualService, Namespace: cmp.Or(d.GetNamespace(), root.Namespace), Name: d.GetName()}
}

// growing reports whether an object is a DestinationRule that may be over a budget if its host has many ports, or many endpoints.
func growing(o *config.Object) bool {
	spec, is := o.Spec.(*networking.DestinationRule)
	return is && (len(spec.GetSubsets()) >= 32 || selections(spec.GetSubsets()) > 2)
}

// index adds the kept versions of an object to the indexes of everything that their weight depends on, or removes them.
func (p *pass) index(h *objectState, in bool) {
	for _, o := range h.kept {
		for _, d := range delegatesOf(o) {
			keepIn(p.trial, p.roots, d, o.Key, in)
		}
		if growing(o) {
			keepIn(p.trial, p.rules, p.ruleHost(o), o.Key, in)
		}
		for _, k := range gatewaysOf(o) {
			keepIn(p.trial, p.routes, k, o.Key, in)
		}
	}
}

// manyRoutes is how many routes an object may make at one listener without being weighed again when its Gateways grow.
const manyRoutes = 64

// gatewaysOf lists the Gateways and ListenerSets that an object names, if it may be over a budget when they have many listeners.
func gatewaysOf(o *config.Object) (out []config.Key) {
	if matchesOf(o)*max(1, len(o.Hostnames()))*len(o.Parents()) >= manyRoutes {
		for _, ref := range o.Parents() {
			out = append(out, parentKey(o, ref))
		}
	}
	if spec, is := o.Spec.(*networking.VirtualService); is {
		if len(spec.GetHosts())*(len(spec.GetHttp())+len(spec.GetTls())+len(spec.GetTcp()))*len(spec.GetGateways()) >= manyRoutes {
			for _, name := range spec.GetGateways() {
				out = append(out, gatewayKey(o, name))
			}
		}
	}
	return out
}

func delegatesOf(o *config.Object) (out []config.Key) {
	spec, is := o.Spec.(*networking.VirtualService)
	if !is {
		return nil
	}
	for _, r := range spec.GetHttp() {
		if d := r.GetDelegate(); d != nil {
			out = append(out, delegateKey(o, d))
		}
	}
	return out
}

func (p *pass) ruleHost(o *config.Object) mesh.Host {
	return mesh.FullHost(config.Spec[*networking.DestinationRule](o).GetHost(), o.Namespace, p.opts.DomainSuffix)
}

// dependent reports whether other objects may change an object's weight, so that it is kept even if it is light.
func dependent(o *config.Object) bool {
	return len(delegatesOf(o)) > 0 || growing(o) || len(gatewaysOf(o)) > 0
}

// inForce records the numbers of an object in force that multiply the weight of others.
func (p *pass) inForce(o *config.Object) {
	switch spec := o.Spec.(type) {
	case *networking.ServiceEntry:
		p.entry(o, spec)
	case *networking.Gateway:
		p.gateway(o.Key, len(spec.GetServers()))
	case *networking.VirtualService:
		var size *httpSize
		if len(spec.GetHosts()) == 0 {
			size = httpOf(spec)
		}
		keep(p.trial, p.around.delegates, o.Key, size)
		for root := range p.roots[o.Key] {
			p.addRecheck(root)
		}
	}
	switch spec := o.Native.(type) {
	case *gatewayv1.GatewaySpec:
		p.gateway(o.Key, len(spec.Listeners))
	case *gatewayv1.ListenerSetSpec:
		p.gateway(o.Key, len(spec.Listeners))
	}
}

// gateway records how many listeners a Gateway has, if they are many; 0: it is gone.
func (p *pass) gateway(k config.Key, listeners int) {
	now := float64(listeners)
	if now <= usualServers {
		now = 0
	}
	if p.around.gateways[k] == now {
		return
	}
	keep(p.trial, p.around.gateways, k, now)
	for route := range p.routes[k] {
		p.addRecheck(route)
	}
}

// noLonger removes the numbers that inForce recorded.
func (p *pass) noLonger(k config.Key) {
	switch k.Kind {
	case config.ServiceEntry:
		p.count(k, entrySize{})
		p.largeHosts(k, nil, hostSize{})
	case config.Gateway, config.KubernetesGateway, config.ListenerSet:
		p.gateway(k, 0)
	case config.VirtualService:
		keep(p.trial, p.around.delegates, k, nil)
		for root := range p.roots[k] {
			p.addRecheck(root)
		}
	}
}

// count counts the ports of a ServiceEntry's hosts; zero: it is gone.
func (p *pass) count(k config.Key, now entrySize) {
	was := p.entries[k]
	if was == now {
		return
	}
	assign(p.trial, &p.ports, p.ports+now.all-was.all)
	keep(p.trial, p.own, k.Namespace, p.own[k.Namespace]+now.all-was.all)
	p.wide(k.Namespace, was.ports, now.ports)
	keep(p.trial, p.entries, k, now)
}

func (p *pass) entry(o *config.Object, spec *networking.ServiceEntry) {
	p.count(o.Key, entrySize{float64(len(spec.GetHosts()) * max(1, len(spec.GetPorts()))), uint16(min(len(spec.GetPorts()), 1<<16-1))})
	s := hostSize{float64(len(spec.GetPorts())), float64(len(spec.GetEndpoints()))}
	var large []mesh.Host
	if s.ports > usualHostPorts || s.endpoints > usualEndpoints {
		for _, h := range spec.GetHosts() {
			large = append(large, mesh.FullHost(h, o.Namespace, p.opts.DomainSuffix))
		}
	}
	p.largeHosts(o.Key, large, s)
}

// largeHosts records the hosts of a ServiceEntry that has many ports or endpoints, and forgets those of the version before.
func (p *pass) largeHosts(k config.Key, now []mesh.Host, s hostSize) {
	for _, h := range p.large[k] {
		if !slices.Contains(now, h) {
			p.host(h, hostSize{})
		}
	}
	for _, h := range now {
		p.host(h, s)
	}
	put(p.trial, p.large, k, now, len(now) > 0)
}

// delegateExcess returns why a delegate would be too large for a VirtualService in force that names it.
func (p *pass) delegateExcess(o *config.Object) string {
	spec, is := o.Spec.(*networking.VirtualService)
	if !is || len(spec.GetHosts()) > 0 || len(p.roots[o.Key]) == 0 {
		return ""
	}
	was, had := p.around.delegates[o.Key]
	p.around.delegates[o.Key] = httpOf(spec)
	defer func() {
		if delete(p.around.delegates, o.Key); had {
			p.around.delegates[o.Key] = was
		}
	}()
	more := map[string]charge{} // by namespace: its charge for all roots with this version
	for root := range p.roots[o.Key] {
		h := p.tracked[root]
		if h == nil || h.inForce == nil {
			continue
		}
		now := objectState{object: h.inForce, weight: p.around.weigh(h.inForce, p.opts.RootNamespace)}
		if why := now.weight.over(p.limits, p.scale(root.Namespace)); why != "" {
			return "VirtualService " + root.Namespace + "/" + root.Name + " delegates to it, and with it " + why
		}
		more[root.Namespace] = more[root.Namespace].plus(p.chargeable(&now)).minus(h.charged)
	}
	for _, ns := range slices.Sorted(maps.Keys(more)) {
		if more[ns].fixed.bytes <= 0 {
			continue
		}
		if why := namespaceExcess(ns, p.used[ns].plus(more[ns]), p.limits.namespace, p.scale(ns)); why != "" {
			return fmt.Sprintf("%d VirtualServices delegate to it, and %s", len(p.roots[o.Key]), why)
		}
	}
	return ""
}

// namespaceExcess returns why a namespace would be over its budget.
func namespaceExcess(namespace string, c charge, limit size, mesh scale) string {
	s := c.fixed.plus(size{c.each.resources * mesh.ports, c.each.bytes * mesh.ports})
	if c.each != (size{}) {
		limit.resources = max(limit.resources, 4*perPort*mesh.allowed)
		limit.bytes = max(limit.bytes, 4*bytesPerPort*mesh.allowed)
	}
	switch {
	case s.resources > limit.resources:
		return fmt.Sprintf("with it the large objects of namespace %s would make about %.0f resources, and a namespace may make %.0f",
			namespace, s.resources, limit.resources)
	case s.bytes > limit.bytes:
		return fmt.Sprintf("with it the large objects of namespace %s would make about %s, and a namespace may make %s",
			namespace, mib(s.bytes), mib(limit.bytes))
	}
	return ""
}

// overBudget returns the problem of an object that is not in force. before: the version before it is in force.
func overBudget(h *objectState, why string, before bool) mesh.Problem {
	end := ": it is not in force"
	switch {
	case before:
		end = ": its last good version stays in force"
	case h.denies:
		end = ": until it fits, what it selects denies every request"
	}
	return h.object.Problem("", code.OverBudget, mesh.Error, why+end,
		"make it smaller or split it, or raise the budget by "+config.BudgetKey+" in defaultConfig.proxyMetadata of the mesh configuration")
}

// denyPolicy returns the policy that takes the place of a refused policy without a good version: the workloads that it selects must not be
// open for lack of it. nil: the object is not such a policy.
func denyPolicy(o *config.Object) *config.Object {
	spec, is := o.Spec.(*security.AuthorizationPolicy)
	if !is {
		return nil
	}
	closed := proto.CloneOf(&security.AuthorizationPolicy{
		Selector: spec.GetSelector(), TargetRef: spec.GetTargetRef(), TargetRefs: spec.GetTargetRefs(),
		Action: security.AuthorizationPolicy_ALLOW,
	})
	switch spec.GetAction() {
	case security.AuthorizationPolicy_AUDIT:
		return nil
	case security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_CUSTOM:
		closed.Action, closed.Rules = security.AuthorizationPolicy_DENY, []*security.Rule{{}}
	}
	out := config.NewMade(o.Key, o, closed, nil)
	out.Labels, out.Annotations = o.Labels, o.Annotations
	return out.At(o.Written())
}
