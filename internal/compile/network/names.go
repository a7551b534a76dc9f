package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file is about gateways that are known only by host name. A resolver supplies their addresses (input.Tables.Resolved), because
// proxies can only be sent to addresses.

// naming is a host name of gateways, of a labelled network or of MeshNetworks.
type naming struct {
	network string
	host    mesh.Host
}

func compareNaming(a, b naming) int {
	return cmp.Or(cmp.Compare(a.network, b.network), cmp.Compare(a.host, b.host))
}

// isName reports whether an address is a host name that can be resolved.
func isName(address string) bool {
	if _, err := netip.ParseAddr(address); err == nil || len(address) > 253 || !strings.ContainsAny(address, "abcdefghijklmnopqrstuvwxyz") {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(address, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// hostOf returns the host name in an address; empty: it is not a name.
func hostOf(address string) mesh.Host {
	if host := strings.TrimSuffix(strings.ToLower(address), "."); isName(host) {
		return mesh.Host(host)
	}
	return ""
}

// declareNames finds the names that have to be resolved, and those that have no answer yet.
func (t *Tables) declareNames(labelled *table.Table[string, table.Rows[mesh.ServiceKey, *mesh.Service]]) {
	none := table.Same[struct{}]
	ofServices := table.Derive(labelled, "network names/labelled", compareNaming, none,
		func(_ *table.Reader, network string, rows table.Rows[mesh.ServiceKey, *mesh.Service], emit func(naming, struct{})) {
			all := map[mesh.Host]bool{}
			for _, s := range rows.All() {
				for _, a := range s.Outside {
					if host := hostOf(a); host != "" && !all[host] {
						all[host] = true
						emit(naming{"by label " + network, host}, struct{}{})
					}
				}
			}
		})
	configured := table.Derive(t.in.Mesh, "network names/configured", compareNaming, none,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(naming, struct{})) {
			if k.Kind != config.MeshNetworks {
				return
			}
			all := map[mesh.Host]bool{}
			add := func(address string) {
				if host := hostOf(address); host != "" && !all[host] {
					all[host] = true
					emit(naming{"MeshNetworks", host}, struct{}{})
				}
			}
			for _, n := range config.Spec[*meshconfig.MeshNetworks](o).GetNetworks() {
				for _, g := range n.GetGateways() {
					add(g.GetAddress())
					rows, _ := table.Get(r, t.reg.ServicesByHost, mesh.Host(strings.ToLower(g.GetRegistryServiceName())))
					for _, m := range rows.All() {
						for _, part := range m.Parts {
							if s, ok := table.Get(r, t.reg.Services, part); ok {
								for _, a := range s.Outside {
									add(a)
								}
							}
						}
					}
				}
			}
		})
	t.Names = table.Keys(table.Union("network names/all", compareNaming, none, nil, table.Whole(ofServices), table.Whole(configured)),
		"network names", cmp.Compare[mesh.Host], func(n naming, _ struct{}) []mesh.Host { return []mesh.Host{n.host} })
	t.Unanswered = table.Derive(t.Names, "network names/unanswered", cmp.Compare[mesh.Host], none,
		func(r *table.Reader, host mesh.Host, _ struct{}, emit func(mesh.Host, struct{})) {
			if !table.Has(r, t.in.Resolved.Table, host) {
				emit(host, struct{}{})
			}
		})
}

// found adds the known addresses of a gateway, which has an address or a name. It returns how many there are, and what is wrong with the
// name; empty: nothing.
func (t *Tables) found(r *table.Reader, f gateways, g Gateway) (used int, wrong string) {
	if f.add(g) {
		return 1, ""
	}
	name := g.Address
	host := hostOf(name)
	switch is, has := table.Get(r, t.in.Resolved.Table, host); {
	case host == "":
		return 0, fmt.Sprintf("%q is neither an address nor the name of a host", name)
	case !t.in.Resolves():
		return 0, fmt.Sprintf("%q is a name, and names of gateways are not resolved (RESOLVE_HOSTNAME_GATEWAYS)", name)
	case !has:
		return 0, fmt.Sprintf("%q is a name that has not been resolved yet", name)
	default:
		for a := range strings.SplitSeq(is.Addresses, ",") {
			if g.Address = a; f.add(g) {
				used++
			}
		}
		switch {
		case is.Failing != "" && used > 0:
			wrong = fmt.Sprintf("the name %q is not resolved any more, the addresses that it had are used: %s", name, is.Failing)
		case is.Failing != "":
			wrong = fmt.Sprintf("the name %q is not resolved: %s", name, is.Failing)
		case used == 0:
			wrong = fmt.Sprintf("the name %q has no address that can be used", name)
		}
		return used, wrong
	}
}
