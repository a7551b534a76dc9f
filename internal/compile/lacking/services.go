package lacking

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"fairway/internal/compile/selects"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// Podless returns the problem of a Service with a selector that selects no pod. pods are the labels of pods of its namespace. It is a
// warning if one of them was probably meant, which the fix says, else an info: the pods may only be stopped.
func Podless(service mesh.ObjectRef, selector mesh.Labels, pods iter.Seq[mesh.Labels]) mesh.Problem {
	p := mesh.Problem{
		Object: service, Field: "spec.selector", Code: code.NoEndpoints, Severity: mesh.Info,
		Message: fmt.Sprintf("no pod of namespace %s has the labels %s: requests to the Service fail", service.Namespace, selector),
		Fix:     "mend the selector, or start pods with these labels",
	}
	if fix := selects.DidYouMean(selector, pods); fix != "" {
		p.Severity, p.Fix = mesh.Warning, fix
	}
	return p
}

// Untargeted returns the problem of a port of a Service, at a field, that leads to a name which no container of the selected pods has for a
// port. names are those that they have; nil: they are not known.
func Untargeted(service mesh.ObjectRef, field, target string, port uint32, names map[string]bool) mesh.Problem {
	fix := spelling.DidYouMean(target, maps.Keys(names), 2)
	switch {
	case fix != "":
	case len(names) > 0:
		fix = "write a name that they have (" + strings.Join(slices.Sorted(maps.Keys(names)), ", ") + "), or a number"
	default:
		fix = "name the port of the container, or write a number"
	}
	return mesh.Problem{
		Object: service, Field: field, Code: code.UnknownPort, Severity: mesh.Warning,
		Message: fmt.Sprintf("no container of the selected pods has a port named %q: requests to port %d fail", target, port),
		Fix:     fix,
	}
}
