package selects

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	typev1beta1 "istio.io/api/type/v1beta1"
)

// Target is an object of the selecting object's namespace that stands for workloads: a Gateway, a Service, a ServiceEntry
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

// TargetsOf gives the set that an object names, by targetRef and by targetRefs.
func TargetsOf(one *typev1beta1.PolicyTargetReference, list []*typev1beta1.PolicyTargetReference) Targets {
	if one != nil {
		list = append(slices.Clip(list), one)
	}
	var out []Target
	for _, ref := range list {
		out = append(out, Target{ref.GetGroup(), ref.GetKind(), ref.GetName()})
	}
	return MakeTargets(out...)
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
