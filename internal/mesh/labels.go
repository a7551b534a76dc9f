package mesh

import (
	"maps"
	"slices"
	"strings"
)

// Labels are key-value pairs in one canonical, comparable string: "a=1,b=2", sorted by key.
// The empty value has no labels. Keys and values may not hold ',' or '=' (Kubernetes' syntax forbids both); those that do are dropped.
type Labels string

// MakeLabels gives the canonical form of m.
func MakeLabels(m map[string]string) Labels {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		if strings.ContainsAny(k, ",=") || strings.Contains(v, ",") || k == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(v)
	}
	return Labels(b.String())
}

// Pairs lists "key=value" in order of key: the terms an index over labels uses.
func (l Labels) Pairs() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), ",")
}

// Get returns one label's value.
func (l Labels) Get(key string) (string, bool) {
	for _, p := range l.Pairs() {
		if k, v, _ := strings.Cut(p, "="); k == key {
			return v, true
		}
	}
	return "", false
}

// Map returns the labels as a new map.
func (l Labels) Map() map[string]string {
	m := map[string]string{}
	for _, p := range l.Pairs() {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return m
}

// Without returns the labels without those that left returns true for the names of.
func (l Labels) Without(left func(name string) bool) Labels {
	pairs := l.Pairs()
	out := slices.DeleteFunc(pairs, func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return left(name)
	})
	if len(out) == len(pairs) {
		return l
	}
	return Labels(strings.Join(out, ","))
}

// SelectedBy reports whether every pair of selector is among l. An empty selector selects everything.
func (l Labels) SelectedBy(selector Labels) bool {
	have := l.Pairs()
	for _, p := range selector.Pairs() {
		if _, ok := slices.BinarySearch(have, p); !ok && !slices.Contains(have, p) {
			return false
		}
	}
	return true
}

// The labels that name a workload, its service and its version, in order of precedence: the same as in Istio's telemetry. A workload
// without a name of its own has that of its service.
var (
	WorkloadLabels = [...]string{"service.istio.io/workload-name"}
	NameLabels     = [...]string{"service.istio.io/canonical-name", "app.kubernetes.io/name", "app"}
	RevisionLabels = [...]string{"service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"}
)

// LocalityLabels say where a workload is, in place of its machine: "region.zone.subzone". The first that it has counts, as in Istio.
var LocalityLabels = [...]string{"topology.istio.io/locality", "istio-locality"}

// Locality returns the locality that a workload's labels say; false if they say none.
func (l Labels) Locality() (Locality, bool) {
	for _, name := range LocalityLabels {
		if said, ok := l.Get(name); ok {
			return ParseLocality(strings.ReplaceAll(said, ".", "/")), true
		}
	}
	return Locality{}, false
}
