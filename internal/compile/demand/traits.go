package demand

import (
	"strconv"
	"strings"

	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// These traits follow from what proxies claim, from their Sidecar, and from labels that rules ask for.
var (
	// Interception is how sidecars get the connections of their workloads.
	Interception = NewTrait("interception", func(i mesh.Interception) string { return strings.ToLower(i.String()) })
	// Families are the families of addresses that proxies have.
	Families = NewTrait("families", Also)
	// Outbound is the policy for unknown hosts, if the proxy's Sidecar has no layer of its own and its policy differs from the mesh's.
	Outbound = NewTrait("outbound policy", func(o sidecar.Outbound) string {
		if o == sidecar.AsMesh {
			return ""
		}
		return "+" + o.String()
	})
	// AutoVIP is whether proxies use addresses that were allocated.
	AutoVIP = NewTrait("allocated addresses", Word("+vip"))
	// Names is whether the proxies' agents resolve names.
	Names = NewTrait("names", silent[bool])
	// Mutual is whether proxies can speak mutual TLS.
	Mutual = NewTrait("mutual TLS", Word("mutual"))
	// Discovers is whether the proxies' Envoys go by the zones of the workload's own peers.
	Discovers = NewTrait("discovers", silent[bool])
	// Identity says who proxies are for the delivery of Secrets.
	Identity = NewTrait("identity", silent[Holder])
	// Sources are the labels of sidecars that sourceLabels of some VirtualService ask for.
	Sources = NewTrait("sources", Quoteless[mesh.Labels]("sources="))
)

// own returns the sources of these traits.
func (t *Tables) own() []Source {
	return []Source{
		From(Interception, func(_ *table.Reader, p vouch.Proxy) (out mesh.Interception) {
			if p.Type != mesh.Router {
				out = p.Interception
			}
			return out
		}),
		From(Families, func(_ *table.Reader, p vouch.Proxy) mesh.Families { return p.Families() }),
		From(AutoVIP, func(_ *table.Reader, p vouch.Proxy) bool { return p.AutoVIP && p.Type != mesh.Router }),
		From(Names, func(_ *table.Reader, p vouch.Proxy) bool { return p.Names && p.Type != mesh.Router }),
		From(Mutual, func(_ *table.Reader, p vouch.Proxy) bool { return p.Mutual }),
		From(Discovers, func(_ *table.Reader, p vouch.Proxy) bool { return p.Discovers }).Singular(),
		From(Identity, func(_ *table.Reader, p vouch.Proxy) Holder { return holderOf(p) }),
		From(Sources, t.sourcesOf).Chosen(),
	}
}

// Word returns the text of a trait that is true or false.
func Word(yes string) func(bool) string {
	return func(is bool) string {
		if is {
			return yes
		}
		return ""
	}
}

// Quoted returns the text of a trait that is a word which proxies say of themselves: quoted, so that no two views have one name.
func Quoted[T ~string](before string) func(T) string {
	return func(word T) string {
		if word == "" {
			return ""
		}
		return before + " " + strconv.Quote(string(word))
	}
}

// Quoteless returns the text of a trait that is a word: the word itself.
func Quoteless[T ~string](before string) func(T) string {
	return func(word T) string {
		if word == "" {
			return ""
		}
		return before + string(word)
	}
}

// silent is the text of a trait that never shows in names of views.
func silent[T any](T) string { return "" }

// Also names families, unless they are the usual ones.
func Also(f mesh.Families) string {
	if f == mesh.IPv4 {
		return ""
	}
	return "+" + strings.ToLower(f.String())
}
