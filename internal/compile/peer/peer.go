package peer

import (
	"cmp"
	"fmt"
	"slices"

	security "istio.io/api/security/v1beta1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the derived tables of this package.
type Tables struct {
	in      *input.Tables
	servers *table.Table[string, *namespace]
	clients *table.Table[string, *namespace] // the same, blind to what clients need not know
}

// mode is one that was set, or not: an unset one is inherited.
type mode struct {
	set  bool
	mtls mesh.MTLS
}

// or is m, else what it inherits.
func (m mode) or(inherited mode) mode {
	if m.set {
		return m
	}
	return inherited
}

// portMode is the mode of one of a workload's ports.
type portMode struct {
	port uint32
	mode mode
}

// policy is one PeerAuthentication.
type policy struct {
	key     config.Key
	created int64
	labels  mesh.Labels // empty: the whole namespace
	mode    mode
	ports   []portMode // by port
}

func (p *policy) equal(o *policy) bool {
	return p == o || p.key == o.key && p.created == o.created && p.labels == o.labels && p.mode == o.mode && slices.Equal(p.ports, o.ports)
}

// namespace is what all objects of a namespace say together.
type namespace struct {
	mode      mode
	workloads []*policy // those with a selector, the oldest first
}

func (n *namespace) equal(o *namespace) bool {
	return n.mode == o.mode && slices.EqualFunc(n.workloads, o.workloads, (*policy).equal)
}

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	policies := table.Derive(in.PeerAuthentications.Table, "peer policies", config.CompareKey, (*policy).equal,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *policy)) {
			emit(k, read(o))
		})
	byNamespace := table.Group(policies, "peer policies/namespace", cmp.Compare[string], func(k config.Key, _ *policy) []string { return []string{k.Namespace} })
	t := &Tables{in: in}
	t.servers = table.Derive(byNamespace, "peer namespaces", cmp.Compare[string], (*namespace).equal,
		func(r *table.Reader, k string, rows table.Rows[config.Key, *policy], emit func(string, *namespace)) {
			emit(k, t.gather(r, rows))
		})
	t.clients = table.Derive(t.servers, "peer namespaces/clients", cmp.Compare[string], (*namespace).equal,
		func(_ *table.Reader, k string, n *namespace, emit func(string, *namespace)) {
			emit(k, n.forClients())
		})
	return t
}

func read(o *config.Object) *policy {
	spec := config.Spec[*security.PeerAuthentication](o)
	p := &policy{key: o.Key, created: o.Created, labels: mesh.MakeLabels(spec.GetSelector().GetMatchLabels()), mode: readMode(spec.GetMtls())}
	for n, m := range spec.GetPortLevelMtls() {
		p.ports = append(p.ports, portMode{n, readMode(m)})
	}
	slices.SortFunc(p.ports, func(a, b portMode) int { return cmp.Compare(a.port, b.port) })
	return p
}

func readMode(m *security.PeerAuthentication_MutualTLS) mode {
	switch m.GetMode() {
	case security.PeerAuthentication_MutualTLS_DISABLE:
		return mode{true, mesh.Disabled}
	case security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return mode{true, mesh.Permissive}
	case security.PeerAuthentication_MutualTLS_STRICT:
		return mode{true, mesh.Strict}
	}
	return mode{}
}

// gather puts a namespace's objects together, and notes those that do nothing because an older one is like them.
func (t *Tables) gather(r *table.Reader, rows table.Rows[config.Key, *policy]) *namespace {
	var all []*policy
	for _, p := range rows.All() {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *policy) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.key.Name, b.key.Name))
	})
	n := &namespace{}
	first := map[mesh.Labels]*policy{}
	for _, p := range all {
		if older := first[p.labels]; older != nil {
			t.shadowed(r, p, older)
			continue
		}
		first[p.labels] = p
		if p.labels == "" {
			n.mode = p.mode
		} else {
			n.workloads = append(n.workloads, p)
		}
	}
	return n
}

func (t *Tables) shadowed(r *table.Reader, p, older *policy) {
	o, ok := table.Get(r, t.in.PeerAuthentications.Table, p.key)
	if !ok {
		return
	}
	r.Note(o.Problem("spec.selector", "Shadowed", mesh.Warning,
		fmt.Sprintf("PeerAuthentication %s/%s, which is older, is for the same workloads: this one has no effect", older.key.Namespace, older.key.Name),
		"merge the two, or select other workloads"))
}

// forClients forgets what a client need not know: it can use mutual TLS wherever that is not disabled.
func (n *namespace) forClients() *namespace {
	out := &namespace{mode: n.mode.forClients()}
	for _, p := range n.workloads {
		c := *p
		c.mode, c.ports = p.mode.forClients(), slices.Clone(p.ports)
		for i := range c.ports {
			c.ports[i].mode = c.ports[i].mode.forClients()
		}
		out.workloads = append(out.workloads, &c)
	}
	return out
}

func (m mode) forClients() mode {
	if m.mtls == mesh.Strict {
		m.mtls = mesh.Permissive
	}
	return m
}

// Policy is what holds for one workload.
type Policy struct {
	// Other is the mode of the ports that the workload's policy does not single out.
	Other mesh.MTLS
	ports []portMode
}

// At is the mode of one of the workload's ports (the port the workload serves on, not the service's).
func (p Policy) At(port uint32) mesh.MTLS {
	if i, ok := slices.BinarySearchFunc(p.ports, port, func(m portMode, n uint32) int { return cmp.Compare(m.port, n) }); ok {
		return p.ports[i].mode.or(mode{mtls: p.Other}).mtls
	}
	return p.Other
}

// Server is what a workload with these labels takes from its clients.
func (t *Tables) Server(r *table.Reader, ns string, labels mesh.Labels) Policy {
	return t.find(r, t.servers, ns, labels)
}

// Client says whether clients may use mutual TLS towards a port of a workload whose proxy takes it.
func (t *Tables) Client(r *table.Reader, ns string, labels mesh.Labels, port uint32) bool {
	return t.find(r, t.clients, ns, labels).At(port) != mesh.Disabled
}

func (t *Tables) find(r *table.Reader, in *table.Table[string, *namespace], ns string, labels mesh.Labels) Policy {
	own, found := table.Get(r, in, ns)
	var inherited mode
	if found {
		inherited = own.mode
	}
	if !inherited.set {
		if root, ok := table.Get(r, in, t.in.RootNamespace(r)); ok {
			inherited = root.mode
		}
	}
	if found {
		for _, p := range own.workloads {
			if labels.SelectedBy(p.labels) {
				return Policy{Other: p.mode.or(inherited).mtls, ports: p.ports}
			}
		}
	}
	return Policy{Other: inherited.mtls}
}
