package scope

import (
	"fairway/internal/compile/input"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// maxUnvouched is of how many objects the authors are told about one proxy: its labels are its own word, and may name
// every selector there is.
const maxUnvouched = 8

// noteUnvouched tells the authors of objects that select a proxy by labels that it says and nobody vouches for.
func (t *Tables) noteUnvouched(r *table.Reader, p vouch.Proxy) {
	if p.Said == p.Labels {
		return
	}
	told := 0
	note := func(in *input.Objects, k config.Key, selector mesh.Labels, field string) bool {
		if p.Labels.SelectedBy(selector) {
			return true
		}
		if o, ok := table.Get(r, in.Table, k); ok {
			r.Note(vouch.Unvouched(o, field, p))
			told++
		}
		return told < maxUnvouched
	}
	if p.Type == mesh.Router {
		for _, e := range t.gateways.Picking(r, "", p.Said) {
			if !note(t.in.Gateways, e.Key, e.Labels, "spec.selector") {
				return
			}
		}
	}
	for _, e := range t.clients.Picking(r, p.Namespace, p.Said) {
		if !note(t.in.DestinationRules, e.Key, e.Labels, "spec.workloadSelector") {
			return
		}
	}
}
