package quota

import (
	"maps"
	"slices"
	"sync"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Options are the parts of the mesh's configuration that a Gate needs.
type Options struct {
	DomainSuffix  string // of short host names
	RootNamespace string // its policies apply in every namespace
}

// Gate refuses objects that are over their budget. Its methods may be called from any goroutine.
//
// It calls next.Apply with its lock held, so that next gets batches in one consistent order; next must not call back into the gate.
type Gate struct {
	opts Options
	next source.Keeper

	mu       sync.Mutex
	limits   limits
	around   surroundings
	services map[mesh.ServiceKey]uint16 // ports
	slices   map[mesh.SliceKey]float64  // endpoints
	entries  map[config.Key]entrySize   // ServiceEntries in force
	large    map[config.Key][]mesh.Host // hosts of those ServiceEntries that have many ports or endpoints
	ports    float64                    // of all services and ServiceEntries
	judgedAt float64                    // the ports when objects that grow with the mesh were last judged

	tracked map[config.Key]*objectState // objects that are heavy, refused, or may become so
	used    map[string]charge           // by namespace: the sum of its heavy objects
	own     map[string]float64          // by namespace: hosts × ports of its ServiceEntries
	roots   map[config.Key]keys         // by delegate: VirtualServices that name it
	routes  map[config.Key]keys         // by Gateway and ListenerSet: objects that may weigh much with it
	rules   map[mesh.Host]keys          // DestinationRules with a weight that may grow much with their host, by host
	full    map[string]keys             // by namespace: refused objects
	trial   *undo                       // nil: no trial goes on
}

// entrySize is the size of a ServiceEntry.
type entrySize struct {
	all   float64 // hosts × ports
	ports uint16
}

type keys map[config.Key]bool

// charge is the size that counts for a namespace: fixed, and for each port of the mesh.
type charge struct{ fixed, each size }

func (c charge) plus(o charge) charge  { return charge{c.fixed.plus(o.fixed), c.each.plus(o.each)} }
func (c charge) minus(o charge) charge { return charge{c.fixed.minus(o.fixed), c.each.minus(o.each)} }

// objectState is the gate's state of one object. A pass replaces it, and does not change what an earlier pass made.
type objectState struct {
	object  *config.Object // the newest version
	weight  weight         // of it
	inForce *config.Object // the version in force; nil: none, or one that was too light to be kept
	charged charge         // what its namespace is charged for the version in force
	refused bool
	denies  bool             // a policy that denies is in force in its place
	kept    []*config.Object // the versions that the indexes know
}

var _ source.Settled = (*Gate)(nil)

// New returns a gate in front of next.
func New(opts Options, next source.Keeper) *Gate {
	return &Gate{
		opts: opts, next: next, limits: limitsOf(nil),
		around: surroundings{
			domain: opts.DomainSuffix, hosts: map[mesh.Host]hostSize{}, listed: map[mesh.Host]float64{},
			delegates: map[config.Key]*httpSize{},
			gateways:  map[config.Key]float64{}, widest: map[string]map[uint16]int{},
		},
		services: map[mesh.ServiceKey]uint16{}, slices: map[mesh.SliceKey]float64{}, entries: map[config.Key]entrySize{},
		large:   map[config.Key][]mesh.Host{},
		tracked: map[config.Key]*objectState{}, used: map[string]charge{}, own: map[string]float64{},
		roots: map[config.Key]keys{}, routes: map[config.Key]keys{}, rules: map[mesh.Host]keys{}, full: map[string]keys{},
	}
}

// Apply hands on the objects of a batch that are within their budget, and other objects that the batch brings within theirs.
func (g *Gate) Apply(b source.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if out := g.pass(b); !out.Empty() {
		g.next.Apply(out)
	}
}

// pass takes a batch, and returns what goes on. mu is held.
func (g *Gate) pass(b source.Batch) source.Batch {
	p := pass{Gate: g, out: b}
	p.out.Set.Objects, p.out.Gone.Objects = nil, nil
	p.services(b)
	p.slices(b)
	for _, k := range b.Gone.Objects {
		p.gone(k)
	}
	for _, o := range inOrder(b.Set.Objects) {
		p.object(o)
	}
	p.again()
	return p.out
}

// inOrder sorts objects so that those that change the weight of other objects come first.
func inOrder(objects []*config.Object) []*config.Object {
	rank := func(o *config.Object) int {
		switch spec := o.Spec.(type) {
		case *networking.VirtualService:
			if len(spec.GetHosts()) == 0 {
				return 1
			}
			return 2
		case *networking.DestinationRule, *networking.EnvoyFilter, *networking.Sidecar:
			return 2
		}
		if len(o.Parents()) > 0 {
			return 2
		}
		return 0
	}
	if len(objects) < 2 {
		return objects
	}
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(a, b *config.Object) int { return rank(a) - rank(b) })
	return out
}

// pass is the state of one call of Apply.
type pass struct {
	*Gate
	out     source.Batch
	recheck keys // objects to be weighed again: a factor of their weight has changed
	freed   keys // one key for each namespace in which refused objects may fit now
}

func (p *pass) addRecheck(k config.Key) {
	if p.recheck == nil {
		p.recheck = keys{}
	}
	p.recheck[k] = true
}

// services counts the ports of registries' services.
func (p *pass) services(b source.Batch) {
	for _, k := range b.Gone.Services {
		p.service(k, 0)
	}
	for _, s := range b.Set.Services {
		p.service(s.Key, uint16(min(len(s.Ports), 1<<16-1)))
	}
}

func (p *pass) service(k mesh.ServiceKey, ports uint16) {
	was := p.Gate.services[k]
	if was == ports {
		return
	}
	assign(p.trial, &p.ports, p.ports+float64(ports)-float64(was))
	keep(p.trial, p.Gate.services, k, ports)
	p.wide(k.Namespace, was, ports)
	p.host(k.Host, hostSize{ports: float64(ports)})
}

// slices counts the endpoints of registries' services.
func (p *pass) slices(b source.Batch) {
	for _, k := range b.Gone.Slices {
		p.slice(k, 0)
	}
	for _, s := range b.Set.Slices {
		p.slice(s.Key, float64(len(s.Endpoints)))
	}
}

func (p *pass) slice(k mesh.SliceKey, endpoints float64) {
	more := endpoints - p.Gate.slices[k]
	if more == 0 {
		return
	}
	keep(p.trial, p.Gate.slices, k, endpoints)
	host := k.Service.Host
	was := p.around.listed[host]
	keep(p.trial, p.around.listed, host, was+more)
	if inSteps(was) != inSteps(was+more) {
		p.grown(host)
	}
}

// wide counts services with many ports, by namespace and in total.
func (p *pass) wide(namespace string, was, now uint16) {
	for _, in := range []string{namespace, ""} {
		if was > usualHostPorts {
			keepIn(p.trial, p.around.widest, in, was, p.around.widest[in][was]-1)
		}
		if now > usualHostPorts {
			keepIn(p.trial, p.around.widest, in, now, p.around.widest[in][now]+1)
		}
	}
}

// host records the size of a host; zero: it is gone.
func (p *pass) host(h mesh.Host, s hostSize) {
	keep(p.trial, p.around.hosts, h, s)
	p.grown(h)
}

// grown marks the rules that multiply with a host to be weighed again.
func (p *pass) grown(h mesh.Host) {
	for k := range p.rules[h] {
		p.addRecheck(k)
	}
}

// object judges a new version of an object.
func (p *pass) object(o *config.Object) {
	if o.Kind == config.MeshConfig {
		assign(p.trial, &p.limits, limitsOf(o))
		for k := range p.tracked {
			p.addRecheck(k)
		}
	}
	h := &objectState{object: o, weight: p.around.weigh(o, p.opts.RootNamespace)}
	if was := p.tracked[o.Key]; was != nil {
		h.charged, h.denies, h.inForce = was.charged, was.denies, was.inForce
	}
	if why := p.excess(h); why != "" {
		p.refuse(h, why, p.known(o.Key))
		return
	}
	p.accept(h)
}

// known reports whether some version of an object is in force, or will be by this batch.
func (p *pass) known(k config.Key) bool {
	return p.next.Has(k) || slices.ContainsFunc(p.out.Set.Objects, func(o *config.Object) bool { return o.Key == k })
}

// excess returns why an object is over a budget; empty: it is within all.
func (p *pass) excess(h *objectState) string {
	mesh := p.scale(h.object.Namespace)
	if why := h.weight.over(p.limits, mesh); why != "" {
		return why
	}
	if why := p.delegateExcess(h.object); why != "" {
		return why
	}
	c := p.chargeable(h)
	if c == (charge{}) {
		return ""
	}
	return namespaceExcess(h.object.Namespace, p.used[h.object.Namespace].minus(h.charged).plus(c), p.limits.namespace, mesh)
}

// ownPorts is how many ports of its own ServiceEntries may raise a namespace's budgets.
const ownPorts = 2000

// scale returns the size of the mesh for the objects of a namespace.
func (g *Gate) scale(namespace string) scale {
	own := g.own[namespace]
	return scale{g.ports, g.ports - own + min(own, ownPorts)}
}

// accept hands an object on.
func (p *pass) accept(h *objectState) {
	k, c := h.object.Key, p.chargeable(h)
	p.weighs(h)
	p.charge(h, c)
	p.clear(h)
	h.denies, h.inForce = false, h.object
	if c == (charge{}) && !h.weight.scaled() && !dependent(h.object) {
		p.hold(k, nil)
	} else {
		p.hold(k, h)
	}
	p.inForce(h.object)
	p.out.Set.Objects = append(p.out.Set.Objects, h.object)
}

// weighs records how many rows change with an object: those of the version before, or of this one.
func (p *pass) weighs(h *objectState) {
	rows := p.rows(h)
	if was := p.tracked[h.object.Key]; was != nil {
		rows = max(rows, p.rows(was))
	}
	if rows < fewRows {
		return
	}
	if p.out.Weights == nil {
		p.out.Weights = map[config.Key]int{}
	}
	p.out.Weights[h.object.Key] = max(rows, p.out.Weights[h.object.Key])
}

// rows estimates how many rows an object produces, in units of a service's row.
func (g *Gate) rows(h *objectState) int {
	s := h.weight.in(g.ports)
	return int(max(s.resources/portResources, s.bytes/rowBytes))
}

// refuse refuses an object. before: a version of it stays in force. If there is none, a policy is replaced by one that denies.
func (p *pass) refuse(h *objectState, why string, before bool) {
	k := h.object.Key
	h.refused = true
	p.hold(k, h)
	keepIn(p.trial, p.full, k.Namespace, k, true)
	if !before || h.denies {
		if s := denyPolicy(h.object); s != nil {
			h.denies = true
			p.out.Set.Objects = append(p.out.Set.Objects, s)
		}
	}
	p.setProblems(k, []mesh.Problem{overBudget(h, why, before && !h.denies)})
}

// withdraw takes an object out of force, because the mesh has grown or the limits were lowered. The removal goes on without a weight, so
// that it does not wait for a turn of its own: the object would be built at its new size first.
func (p *pass) withdraw(h *objectState, why string) {
	k := h.object.Key
	p.charge(h, charge{})
	h.inForce = nil
	p.out.Set.Objects = slices.DeleteFunc(p.out.Set.Objects, func(o *config.Object) bool { return o.Key == k })
	p.noLonger(k)
	p.refuse(h, why, false)
	if !h.denies {
		p.out.Gone.Objects = append(p.out.Gone.Objects, k)
	}
}

// gone removes an object.
func (p *pass) gone(k config.Key) {
	if k.Kind == config.MeshConfig {
		assign(p.trial, &p.limits, limitsOf(nil))
		for k := range p.tracked {
			p.addRecheck(k)
		}
	}
	if was := p.tracked[k]; was != nil {
		h := new(*was)
		p.weighs(h)
		p.charge(h, charge{})
		p.clear(h)
		p.hold(k, nil)
	}
	p.noLonger(k)
	p.out.Gone.Objects = append(p.out.Gone.Objects, k)
}

// hold keeps an object, or forgets it, and updates the indexes of everything that its weight depends on.
func (p *pass) hold(k config.Key, h *objectState) {
	if was := p.tracked[k]; was != nil {
		p.index(was, false)
	}
	if h != nil {
		h.kept = slices.DeleteFunc([]*config.Object{h.object, h.inForce}, func(o *config.Object) bool { return o == nil })
		p.index(h, true)
	}
	keep(p.trial, p.tracked, k, h)
}

// charge sets the size of an object that its namespace is charged for.
func (p *pass) charge(h *objectState, c charge) {
	ns := h.object.Namespace
	if c == h.charged {
		return
	}
	keep(p.trial, p.used, ns, p.used[ns].minus(h.charged).plus(c))
	if p.freed == nil {
		p.freed = keys{}
	}
	p.freed[config.Key{Namespace: ns}] = true
	h.charged = c
}

// clear removes the problem of an object that was refused.
func (p *pass) clear(h *objectState) {
	k := h.object.Key
	was := p.tracked[k]
	if was == nil || !was.refused {
		return
	}
	h.refused = false
	keepIn(p.trial, p.full, k.Namespace, k, false)
	p.setProblems(k, nil)
}

func (p *pass) setProblems(k config.Key, problems []mesh.Problem) {
	said := map[source.Place][]mesh.Problem{}
	for at, list := range p.out.Problems {
		said[at] = list
	}
	said[source.Place{Source: "budget", Name: k.String()}] = problems
	p.out.Problems = said
}

// again judges objects again if their verdict may have changed: a factor of their weight has changed, the mesh has doubled or halved, or
// their namespace has room.
func (p *pass) again() {
	if p.ports > 2*p.judgedAt || p.ports < p.judgedAt/2 {
		assign(p.trial, &p.judgedAt, p.ports)
		for k, h := range p.tracked {
			if h.weight.each != (size{}) {
				p.addRecheck(k)
			}
		}
	}
	for at := range p.freed {
		for k := range p.full[at.Namespace] {
			p.addRecheck(k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.recheck), config.CompareKey) {
		if h := p.tracked[k]; h != nil {
			again := new(*h)
			keep(p.trial, p.tracked, k, again)
			p.judgeAgain(again)
		}
	}
}

// judgeAgain weighs the kept versions of an object again.
func (p *pass) judgeAgain(h *objectState) {
	h.weight = p.around.weigh(h.object, p.opts.RootNamespace)
	if h.inForce != nil {
		now := objectState{object: h.inForce, weight: p.around.weigh(h.inForce, p.opts.RootNamespace), charged: h.charged}
		if why := p.excess(&now); why != "" {
			p.withdraw(h, why)
			return
		}
		p.charge(h, p.chargeable(&now))
	}
	if !h.refused {
		return
	}
	if why := p.excess(h); why == "" {
		p.accept(h)
	}
}

// chargeable returns the size that a namespace is charged for an object. An object with delegates is never too light: many small ones may
// all get the routes of one large delegate.
func (g *Gate) chargeable(h *objectState) charge {
	if h.weight.joined > 0 || g.limits.heavy(h.weight.in(g.ports)) {
		return charge{h.weight.fixed, h.weight.each}
	}
	return charge{}
}
