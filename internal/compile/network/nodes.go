package network

import (
	"cmp"
	"fmt"
	"strconv"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/selects"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file is about gateways that are reached through machines of their cluster (Services of type NodePort).

// mostNodes is by how many machines one gateway is entered at most.
const mostNodes = 100

const nodesField = "metadata.annotations[traffic.istio.io/nodeSelector]"

// labelled is a label ("key=value") that machines of a registry have; empty: any labels.
type labelled struct{ registry, pair string }

// declareNodes finds machines by their labels.
func (t *Tables) declareNodes() {
	compare := func(a, b labelled) int {
		return cmp.Or(cmp.Compare(a.registry, b.registry), cmp.Compare(a.pair, b.pair))
	}
	t.nodes = table.Group(t.in.Machines, "machines/labels", compare, func(k mesh.MachineKey, m mesh.Machine) []labelled {
		out := []labelled{{k.Registry, ""}}
		for _, pair := range m.Labels.Pairs() {
			out = append(out, labelled{k.Registry, pair})
		}
		return out
	})
}

// onNodes adds the addresses of the machines that lead to a service, with the node port that belongs to the gateway's port. It returns how
// many.
func (t *Tables) onNodes(r *table.Reader, f gateways, s *mesh.Service, g Gateway) (used int) {
	if s.Nodes == nil {
		return 0
	}
	text, _ := s.Nodes.Ports.Get(strconv.Itoa(int(g.Port)))
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	g.Port = uint32(port)
	by := labelled{registry: s.Key.Registry}
	if s.Nodes.Machines != "" {
		by.pair = selects.First(s.Nodes.Machines)
	}
	var serving map[mesh.MachineRef]bool
	if s.Nodes.Serving {
		serving = t.serving(r, s)
	}
	rows, _ := table.Get(r, t.nodes, by)
	for k, m := range rows.All() {
		if !m.Labels.SelectedBy(s.Nodes.Machines) || s.Nodes.Serving && !serving[k.Ref()] {
			continue
		}
		if used == mostNodes {
			r.Note(mesh.Problem{
				Object: s.Origin, Field: nodesField, Code: code.TooMuch, Severity: mesh.Warning,
				Message: fmt.Sprintf("of the Nodes that it selects the first %d enter network %s", mostNodes, g.Network),
				Fix:     "select fewer",
			})
			break
		}
		if g.Address = m.Address; f.add(g) {
			used++
		}
	}
	return used
}

// serving are the machines that healthy endpoints of a service run on.
func (t *Tables) serving(r *table.Reader, s *mesh.Service) map[mesh.MachineRef]bool {
	out := map[mesh.MachineRef]bool{}
	rows, _ := table.Get(r, t.reg.EndpointsByHost, registry.KeyOf(s))
	for k, e := range rows.All() {
		if k.Service == s.Key && e.Health == mesh.Healthy {
			out[e.Machine] = true
		}
	}
	return out
}

func noNode(s *mesh.Service, g Gateway) string {
	port := strconv.Itoa(int(g.Port))
	if _, has := s.Nodes.Ports.Get(port); !has {
		return fmt.Sprintf(
			"it leads into network %s by Nodes, and its port %s has no node port: clients cannot enter the network there", g.Network, port,
		)
	}
	out := fmt.Sprintf("it leads into network %s by Nodes, and no Node that it selects has an address", g.Network)
	if s.Nodes.Serving {
		out += " and runs a pod of it that is ready (externalTrafficPolicy: Local)"
	}
	return out + ": clients cannot enter the network there"
}
