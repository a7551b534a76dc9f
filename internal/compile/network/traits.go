package network

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// These are the traits for the location of proxies.
var (
	// OwnLocality is the locality of a proxy.
	OwnLocality = demand.NewTrait("locality", func(l mesh.Locality) string {
		if l == (mesh.Locality{}) {
			return ""
		}
		return "from " + l.String()
	})
	// OwnNetwork is the network of a proxy; empty: none.
	OwnNetwork = demand.NewTrait("network", demand.Quoted[string]("in"))
	// OwnMachine is the machine of a proxy, while that matters.
	OwnMachine = demand.NewTrait("machine", func(m mesh.MachineRef) string {
		if m == (mesh.MachineRef{}) {
			return ""
		}
		return "on " + m.String()
	})
	// Ranked is whether some rule ranks endpoints by labels for proxies (LocalityLoadBalancerSetting.failover_priority).
	Ranked = demand.NewTrait("ranked", demand.Word(""))
	// Ranks are the labels of proxies that such rules compare with endpoints' labels.
	Ranks = demand.NewTrait("ranks", demand.Quoteless[mesh.Labels]("ranks="))
)

// Sources finds the location of proxies.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{
		demand.From(OwnLocality, func(r *table.Reader, p vouch.Proxy) mesh.Locality {
			where, _ := t.LocalityOf(r, p.Proxy)
			return where
		}),
		demand.From(OwnNetwork, func(r *table.Reader, p vouch.Proxy) string { return t.OfProxy(r, p.Proxy) }),
		demand.From(OwnMachine, func(r *table.Reader, p vouch.Proxy) mesh.MachineRef { return t.MachineOf(r, p.Proxy) }),
		demand.From(Ranked, t.ranked),
		demand.From(Ranks, t.ranksOf).Chosen(),
	}
}

// NoteElsewhere adds a problem for a proxy that reports a locality without any part of the mesh.
func (t *Tables) NoteElsewhere(r *table.Reader, p vouch.Proxy) {
	if _, odd := t.LocalityOf(r, p.Proxy); !odd {
		return
	}
	r.Note(mesh.Problem{
		Object: demand.AccountOf(p), Code: code.UnknownLocality, Severity: mesh.Info,
		Message: "its proxies report localities without any endpoint, Node, WorkloadEntry or WorkloadGroup of the mesh: these do not count",
		Fix:     "give the locality to the workload: by its Node's labels, its WorkloadEntry or its WorkloadGroup",
	})
}
