package selects

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Target is an object of the selecting object's namespace that workloads belong to: a Gateway, a Service, a ServiceEntry
// (PolicyTargetReference).
type Target struct{ Group, Kind, Name string }

func compareTarget(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Targets is a set of targets in canonical form; the empty text is the empty set.
type Targets string

// MakeTargets gives the set of some targets.
func MakeTargets(list ...Target) Targets {
	list = slices.Clone(list)
	slices.SortFunc(list, compareTarget)
	var b strings.Builder
	for _, t := range slices.Compact(list) {
		for _, part := range []string{t.Group, t.Kind, t.Name} {
			b.WriteString(strconv.Quote(part))
		}
	}
	return Targets(b.String())
}

// TargetsOf returns the set that an object names, by targetRef and by targetRefs. Group "core" is the empty group.
func TargetsOf(one *typev1beta1.PolicyTargetReference, list []*typev1beta1.PolicyTargetReference) Targets {
	if one != nil {
		list = append(slices.Clip(list), one)
	}
	var out []Target
	for _, ref := range list {
		group := ref.GetGroup()
		if group == "core" {
			group = ""
		}
		out = append(out, Target{group, ref.GetKind(), ref.GetName()})
	}
	return MakeTargets(out...)
}

// NoteTargets notes each of an object's targetRefs that has no effect, because no proxy here belongs to such a target. root is the root
// namespace, what names the object's kind in the plural.
func NoteTargets(r *table.Reader, o *config.Object, root, what string, list []*typev1beta1.PolicyTargetReference) {
	for i, ref := range list {
		field, why := fmt.Sprintf("spec.targetRefs[%d]", i), ""
		switch {
		case ref.GetKind() == "Service" || ref.GetKind() == "ServiceEntry":
			why = what + " for a " + ref.GetKind() + " hold at waypoints, and there are none in this mesh: by this target it holds nowhere"
		case ref.GetKind() == "GatewayClass" && o.Namespace != root:
			why = what + " for a GatewayClass hold in the root namespace alone: by this target it holds nowhere"
		default:
			continue
		}
		r.Note(o.Problem(field, code.Unused, mesh.Warning, why, "select workloads by selector"))
	}
}

// Contains reports whether a workload belongs to one of the targets.
func (s Targets) Contains(w Workload) bool {
	for _, t := range s.all() {
		if slices.Contains(w.Targets, t) || slices.Contains(w.Classes, t) {
			return true
		}
	}
	return false
}

// all lists the targets, in order.
func (s Targets) all() (out []Target) {
	for rest := string(s); rest != ""; {
		var parts [3]string
		for i := range parts {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return out // no set of MakeTargets
			}
			parts[i], _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		}
		out = append(out, Target{parts[0], parts[1], parts[2]})
	}
	return out
}
