package contest

import (
	"cmp"
	"strings"

	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
)

// Aliases lists the other names that clients of a namespace use for a host. A host that has such a name as its own may take it. Pods behind
// a headless service of Kubernetes have names below its own.
func Aliases(host mesh.Host, s *mesh.Service, client, suffix string) []string {
	out := route.Aliases(host, client, suffix)
	if s == nil || !s.Headless() || s.Key.Cluster() == "" {
		return out
	}
	for _, name := range append([]string{string(host)}, out...) {
		out = append(out, "*."+name)
	}
	return out
}

// Contest is a place where hosts may have names that are aliases of other hosts: a namespace, or one name. It saves look-ups: without it,
// each host would ask for a host of each of its aliases, and tables keep every key that was asked for, even without a row.
type Contest struct{ namespace, name string }

// Compare orders by namespace, then name.
func Compare(a, b Contest) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// Of returns the contest of a host that may have the same name as another one's alias (see Aliases); zero: none.
func Of(host mesh.Host, suffix string) Contest {
	name, below := strings.CutPrefix(string(host), "*.")
	name, absolute := strings.CutSuffix(name, ".")
	_, namespace, local := mesh.Host(name).Local(suffix)
	labels := strings.Split(name, ".")
	switch {
	case local && (below || absolute):
		return Contest{namespace: namespace}
	case local:
		return Contest{}
	case absolute:
		return Contest{name: string(host)}
	case len(labels) == 2, len(labels) == 3 && labels[2] == "svc":
		return Contest{namespace: labels[1]}
	case len(labels) == 1:
		return Contest{name: name}
	}
	return Contest{}
}

// Over lists the contests where a host may lose one of its aliases, for clients of a namespace.
func Over(host mesh.Host, client, suffix string) []Contest {
	name, namespace, local := host.Local(suffix)
	switch {
	case !local:
		return []Contest{{name: string(host) + "."}}
	case namespace != client:
		return []Contest{{namespace: namespace}}
	}
	return []Contest{{namespace: namespace}, {name: name}}
}
