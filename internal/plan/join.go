package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Join returns a plan of several control planes that read the same sources and have proxies of their own.
func Join(all ...*Plan) *Plan {
	out := *all[0]
	for _, p := range all[1:] {
		out.Connected, out.Proxies, out.Bytes = out.Connected+p.Connected, out.Proxies+p.Proxies, out.Bytes+p.Bytes
		out.Dangers, out.Changes = joinSentences(out.Dangers, p.Dangers), joinSentences(out.Changes, p.Changes)
		out.Resources = joinResources(out.Resources, p.Resources)
		out.Asks, out.Added, out.Removed = union(out.Asks, p.Asks), union(out.Added, p.Added), union(out.Removed, p.Removed)
	}
	if len(all) > 1 {
		out.Types = []Count{}
		for _, r := range out.Resources {
			out.Types = counted(out.Types, r.Type, r.Change)
		}
	}
	return &out
}

func joinSentences(one, more []Sentence) []Sentence {
	one = slices.Clone(one)
	for _, s := range more {
		if i := slices.IndexFunc(one, func(o Sentence) bool { return o.Text == s.Text }); i >= 0 {
			one[i].Proxies, one[i].Some = one[i].Proxies+s.Proxies, joinNames(one[i].Some, s.Some)
		} else {
			one = append(one, s)
		}
	}
	slices.SortFunc(one, func(a, b Sentence) int {
		return cmp.Or(-cmp.Compare(a.Proxies, b.Proxies), strings.Compare(a.Text, b.Text))
	})
	return one
}

func joinResources(one, more []Resource) []Resource {
	one = slices.Clone(one)
	for _, r := range more {
		same := func(o Resource) bool {
			return o.Type == r.Type && o.Name == r.Name && o.Change == r.Change && slices.Equal(o.Fields, r.Fields)
		}
		if i := slices.IndexFunc(one, same); i >= 0 {
			one[i].Proxies, one[i].Some = one[i].Proxies+r.Proxies, joinNames(one[i].Some, r.Some)
		} else {
			one = append(one, r)
		}
	}
	slices.SortStableFunc(one, func(a, b Resource) int { return strings.Compare(a.Type+" "+a.Name, b.Type+" "+b.Name) })
	return one
}

// joinNames names the first of the proxies of both.
func joinNames(one, more []string) []string {
	all := union(one, more)
	slices.Sort(all)
	return all[:min(someProxies, len(all))]
}

// union adds what only the second list has.
func union[E comparable](one, more []E) []E {
	one = slices.Clone(one)
	for _, e := range more {
		if !slices.Contains(one, e) {
			one = append(one, e)
		}
	}
	return one
}
