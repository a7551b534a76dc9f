package peer

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	security "istio.io/api/security/v1beta1"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Tables are the derived tables of this package.
type Tables struct {
	in      *input.Tables
	servers *selects.Index[policy]
	clients *selects.Index[policy] // the same, blind to what clients need not know
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

// policy is the content of one PeerAuthentication. It is immutable.
type policy struct {
	mode  mode
	ports []portMode // by port
}

func samePolicy(a, b policy) bool { return a.mode == b.mode && slices.Equal(a.ports, b.ports) }

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in}
	t.servers = selects.Declare(
		in.PeerAuthentications,
		"peer policies",
		samePolicy,
		func(o *config.Object) (selects.Selector, policy, bool) {
			return selectorOf(o), read(o), true
		},
	)
	t.clients = selects.Declare(
		in.PeerAuthentications,
		"peer policies/clients",
		samePolicy,
		func(o *config.Object) (selects.Selector, policy, bool) {
			return selectorOf(o), read(o).forClients(), true
		},
	)
	table.Derive(in.PeerAuthentications, "peer policies/ignored", config.CompareKey, table.Same[struct{}], t.ignored)
	t.servers.Alike("peer policies/shadowed", func(r *table.Reader, _ selects.Selector, list []selects.Entry[policy]) {
		for _, younger := range list[1:] {
			t.shadowed(r, younger.Key, list[0].Key)
		}
	})
	return t
}

func selectorOf(o *config.Object) selects.Selector {
	return selects.Selector{
		Namespace: o.Namespace,
		Labels:    mesh.MakeLabels(config.Spec[*security.PeerAuthentication](o).GetSelector().GetMatchLabels()),
	}
}

func read(o *config.Object) policy {
	spec := config.Spec[*security.PeerAuthentication](o)
	p := policy{mode: readMode(spec.GetMtls())}
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

// ignored notes an object of the root namespace that has a selector.
func (t *Tables) ignored(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
	if selectorOf(o).Labels == "" || o.Namespace != t.in.RootNamespace(r) {
		return
	}
	r.Note(o.Problem("spec.selector", code.Unused, mesh.Warning,
		"a PeerAuthentication of the root namespace that has a selector does nothing, as with Istio",
		"remove the selector, and it holds for the mesh; or write it in the workloads' own namespace"))
}

// shadowed notes an object that has no effect because an older one is for the same workloads.
func (t *Tables) shadowed(r *table.Reader, p, older config.Key) {
	o, ok := table.Get(r, t.in.PeerAuthentications, p)
	if !ok {
		return
	}
	r.Note(o.Problem(
		"spec.selector",
		code.Shadowed,
		mesh.Error,
		fmt.Sprintf("PeerAuthentication %s/%s, which is older, is for the same workloads: this one has no effect", older.Namespace,
			older.Name),
		"merge the two, or select other workloads",
	))
}

// forClients keeps only what clients need: they can use mutual TLS wherever it is not disabled.
func (p policy) forClients() policy {
	p.mode = p.mode.forClients()
	for i := range p.ports {
		p.ports[i].mode = p.ports[i].mode.forClients()
	}
	return p
}

func (m mode) forClients() mode {
	if m.mtls == mesh.Strict {
		m.mtls = mesh.Permissive
	}
	return m
}

// Policy is what holds for one workload.
type Policy struct {
	// Other is the mode of the ports that the workload's policy does not name.
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

// Ports yields the ports that the workload's policy names, and their modes, by number.
func (p Policy) Ports() iter.Seq2[uint32, mesh.MTLS] {
	return func(yield func(uint32, mesh.MTLS) bool) {
		for _, m := range p.ports {
			if !yield(m.port, m.mode.or(mode{mtls: p.Other}).mtls) {
				return
			}
		}
	}
}

// Server is what a workload with these labels takes from its clients.
func (t *Tables) Server(r *table.Reader, namespace string, labels mesh.Labels) Policy {
	root := t.in.RootNamespace(r)
	return join(t.servers.For(r, root, selects.Workload{Namespace: namespace, Labels: labels}), namespace == root)
}

// Client reports whether clients may use mutual TLS to a port of a workload that has a proxy which takes mutual TLS.
func (t *Tables) Client(r *table.Reader, namespace string, labels mesh.Labels, port uint32) bool {
	root := t.in.RootNamespace(r)
	holding := t.clients.ForOneOf(r, root, selects.Workload{Namespace: namespace, Labels: labels})
	return join(holding, namespace == root).At(port) != mesh.Disabled
}

// join merges the oldest object that selects a workload with its fallbacks: the namespace's oldest for all workloads, then the root
// namespace's. In the root namespace, objects that select a workload have no effect, as in Istio's API.
func join(h selects.Holding[policy], inRoot bool) Policy {
	var inherited mode
	if list := h.Namespace(); len(list) > 0 {
		inherited = list[0].Value.mode
	}
	if !inherited.set {
		if list := h.Root(); len(list) > 0 {
			inherited = list[0].Value.mode
		}
	}
	if inRoot {
		return Policy{Other: inherited.mtls}
	}
	own := h.Own()
	if len(own) == 0 {
		return Policy{Other: inherited.mtls}
	}
	return Policy{Other: own[0].Value.mode.or(inherited).mtls, ports: own[0].Value.ports}
}
