package plan

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// found is what a change makes different for crowds of proxies, before it is put into words.
type found struct {
	crowds         []crowd
	groups         []*group // in order
	proxies, bytes int
}

// groupKey names a difference that proxies have alike.
type groupKey struct {
	typ      xdstype.Type
	name     string
	old, now uint64
}

// group is a difference, and the crowds that have it.
type group struct {
	trial.Difference
	crowds []int
}

// gather groups differences.
func gather(all iter.Seq2[[]mesh.ProxyID, iter.Seq[trial.Difference]]) *found {
	out, groups := &found{}, map[groupKey]*group{}
	for ids, differences := range all {
		one := len(out.crowds)
		some := false
		for d := range differences {
			some = true
			k := groupKey{d.Type, d.Name, version(d.Old), version(d.New)}
			if groups[k] == nil {
				groups[k] = &group{Difference: d}
			}
			groups[k].crowds = append(groups[k].crowds, one)
			if d.New != nil {
				out.bytes += len(d.New.Body) * len(ids)
			}
		}
		if some {
			out.crowds = append(out.crowds, ids)
			out.proxies += len(ids)
		}
	}
	out.groups = slices.SortedFunc(maps.Values(groups), compareGroups)
	return out
}

func compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name), cmp.Compare(version(a.Old), version(b.Old)),
		cmp.Compare(version(a.New), version(b.New)))
}

// plan puts differences into words. refused are resources that would not be sent.
func (f *found) plan(s seen, refused ...trial.Refused) *Plan {
	out := &Plan{
		Proxies: f.proxies, Bytes: f.bytes, Types: count(f.groups), Resources: []Resource{},
		Added: []Problem{}, Removed: []Problem{}, Asks: []string{},
	}
	said := newSentences(s, f.crowds)
	for _, one := range f.groups {
		out.Resources = append(out.Resources, said.resource(one))
		said.describe(one)
	}
	for _, r := range refused {
		said.add(true, nil, "%s %s would not be sent, proxies keep what they have: %v", r.Type, r.Name, r.Err)
	}
	out.Dangers, out.Changes = said.list(true), said.list(false)
	return out
}

// change says how the resource changes.
func (g *group) change() string {
	switch {
	case absent(g.Old):
		return "added"
	case absent(g.New):
		return "removed"
	}
	return "changed"
}

func (s *sentences) resource(g *group) Resource {
	n, some := s.size(slices.Values(g.crowds))
	out := Resource{Type: g.Type.String(), Name: g.Name, Change: g.change(), Proxies: n, Some: some}
	if out.Change == "changed" && g.Type != xdstype.Secrets {
		out.Fields = fields(message(g.Type, g.Old), message(g.Type, g.New))
	}
	return out
}

func count(all []*group) []Count {
	out := []Count{}
	for _, g := range all {
		out = counted(out, g.Type.String(), g.change())
	}
	return out
}

// counted counts one more change of a type; the changes of one type come one after the other.
func counted(all []Count, typ, change string) []Count {
	if n := len(all); n == 0 || all[n-1].Type != typ {
		all = append(all, Count{Type: typ})
	}
	c := &all[len(all)-1]
	switch change {
	case "added":
		c.Added++
	case "removed":
		c.Removed++
	default:
		c.Changed++
	}
	return all
}
