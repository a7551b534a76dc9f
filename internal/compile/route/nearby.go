package route

import (
	"cmp"
	"slices"
	"strings"

	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// nearby finds names that are similar to a wrong one, without a look at all names: services of the same first label, or of the same
// namespace and first letter.
type nearby struct {
	byLabel    *table.Table[string, table.Rows[registry.HostKey, *registry.Merged]]
	byInitials *table.Table[initials, table.Rows[registry.HostKey, *registry.Merged]]
}

// initials is a namespace and the first letter of a host.
type initials struct{ namespace, letter string }

func (t *Tables) declareNearby() {
	t.nearby.byLabel = table.Group(
		t.reg.Merged,
		"route/hosts by first label",
		strings.Compare,
		func(k registry.HostKey, _ *registry.Merged) []string {
			return []string{firstLabel(k.Host)}
		},
	).SkipInOrigins()
	t.nearby.byInitials = table.Group(t.reg.Merged, "route/hosts by initial", func(a, b initials) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.letter, b.letter))
	}, func(k registry.HostKey, _ *registry.Merged) []initials {
		return []initials{{k.Namespace, initial(k.Host)}}
	}).SkipInOrigins()
}

func firstLabel(h mesh.Host) string {
	first, _, _ := strings.Cut(string(h), ".")
	return first
}

func initial(h mesh.Host) string {
	if h == "" {
		return ""
	}
	return string(h[:1])
}

// host suggests a service that clients of a namespace see, in place of one that they do not see; empty: none is similar.
func (n nearby) host(r *table.Reader, wrong mesh.Host, namespace string) string {
	var candidates []string
	gather := func(rows table.Rows[registry.HostKey, *registry.Merged]) {
		for k, m := range rows.All() {
			if m.Service.VisibleIn(namespace) {
				candidates = append(candidates, string(k.Host))
			}
		}
	}
	same, _ := table.Get(r, n.byLabel, firstLabel(wrong))
	gather(same)
	if len(candidates) > 0 {
		return Nearest(string(wrong), candidates, len(wrong))
	}
	like, _ := table.Get(r, n.byInitials, initials{namespace, initial(wrong)})
	gather(like)
	return Nearest(string(wrong), candidates, 2)
}

// Nearest returns the candidate that takes the fewest edits from the wrong name, up to a limit; if there are several, the first in order.
// Empty: there is none.
func Nearest(wrong string, candidates []string, most int) string {
	best := ""
	slices.Sort(candidates)
	for _, c := range candidates {
		if d := distance(wrong, c, most); d <= most {
			best, most = c, d-1
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap to make b of a; a value above most means: more than that.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// didYouMean is a Fix that suggests a name, or another text if there is none.
func didYouMean(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return "did you mean " + name + "?"
}
