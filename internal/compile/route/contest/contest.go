package contest

import (
	"cmp"
	"strings"

	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
)

// Aliases lists the other names of a host that clients of a namespace use, of which a host of that very name may take one. Pods
// behind a headless service of Kubernetes have names below its own.
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

// Contest is where hosts may have names that are others' aliases: a namespace, or one name. Without it each host would
// ask for a host of each of its aliases, and the tables keep what is asked for and is not there.
type Contest struct{ namespace, name string }

// Compare orders by namespace, then name.
func Compare(a, b Contest) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// Of is where a host may have the name of another one's alias, as Aliases has them; zero: nowhere.
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

// Over lists where a host would lose one of its aliases for clients of a namespace.
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
