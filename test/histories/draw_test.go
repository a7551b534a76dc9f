package histories

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"fairway/internal/config"
)

// writer makes scripts at random. It knows the folder's contents, so that it removes and moves only existing documents.
type writer struct {
	draw
	decoder *config.Decoder
	objects map[string]document // by key
	copies  []document          // documents in a second file
	gone    map[string]document // that were all removed at once, to be put back
	proxies map[string]bool
	cluster bool     // objects of a platform are drawn too
	places  []string // files and stores for objects
	servers bool     // registries change too
}

// write makes the script of a seed.
func write(decoder *config.Decoder, seed uint64, steps int, cluster, servers bool) script {
	w := &writer{
		decoder: decoder,
		draw:    draw{rand.New(rand.NewPCG(seed, 11))},
		objects: map[string]document{},
		gone:    map[string]document{},
		proxies: map[string]bool{},
		cluster: cluster,
		places:  files,
		servers: servers,
	}
	if servers {
		w.places = append(slices.Clone(files), stores...)
	}
	out := make(script, steps)
	for i := range out {
		out[i] = w.step()
	}
	return out
}

func (w *writer) step() (out step) {
	switch n := w.IntN(100); {
	case n < 50:
		for range 1 + w.IntN(1+w.IntN(8)) {
			out = append(out, w.edit())
		}
	case n < 55:
		out = w.clear()
	case n < 60:
		out = w.restore()
	case n < 63:
		out = append(out, action{Restart: true})
		for range w.IntN(4) {
			out = append(out, w.edit())
		}
	default:
		out = append(out, w.arrival())
	}
	if w.cluster && w.often(1) {
		out = append(step{{Outage: pick(w.draw, cut, compacted, killed, westCut)}}, out...)
	}
	if w.cluster && w.often(1) {
		out = append(step{{West: pick(w.draw, "yes", "yes", "no")}}, out...)
	}
	if w.cluster && w.often(4) {
		if c, some := w.condition(); some {
			out = append(out, action{Condition: c})
		}
	}
	if w.servers {
		out = w.platforms(out)
	}
	for w.often(2) { // at the same time
		out = append(out, w.arrival())
	}
	return out
}

func (w *writer) edit() action {
	switch n := w.IntN(20); {
	case n < 4 && len(w.objects) > 0:
		d := w.any()
		delete(w.objects, d.Key)
		return action{Drop: &d}
	case n < 6 && len(w.objects) > 0: // as it was, in another file
		d := w.any()
		w.house(&d)
		w.objects[d.Key] = d
		return action{Put: &d}
	case n < 7:
		text := w.mesh()
		return action{Mesh: &text}
	case n < 8:
		text := w.networks()
		return action{Networks: &text}
	case n < 9:
		d := w.good()
		w.copies = append(w.copies, d)
		return action{Copy: &d}
	}
	d := w.good()
	w.objects[d.Key] = d
	return action{Put: &d}
}

// good draws an object that is right: what a wrong one does depends on the version before it, which stays in force.
func (w *writer) good() document {
	if w.cluster && w.often(5) {
		return w.platform()
	}
	for {
		d := w.object()
		if w.servers {
			w.house(&d)
		}
		if o, _ := w.decoder.Decode(config.Document{File: d.File, Line: 1, Text: []byte(d.Text)}); o != nil {
			return d
		}
	}
}

func (w *writer) any() document {
	return w.objects[pick(w.draw, slices.Sorted(maps.Keys(w.objects))...)]
}

// condition draws a condition of an existing WorkloadEntry.
func (w *writer) condition() (*condition, bool) {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		if at, is := strings.CutPrefix(key, "WorkloadEntry/"); is {
			entries = append(entries, at)
		}
	}
	if len(entries) == 0 {
		return nil, false
	}
	namespace, name, _ := strings.Cut(pick(w.draw, entries...), "/")
	return &condition{
		Namespace: namespace, Name: name, Status: pick(w.draw, "True", "True", "False", "False", "Unknown", ""), Others: w.often(3),
	}, true
}

// clear removes all objects at once.
func (w *writer) clear() (out step) {
	if len(w.objects) > 0 {
		w.gone = w.objects
	}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		d := w.objects[key]
		out = append(out, action{Drop: &d})
	}
	for _, d := range w.copies {
		out = append(out, action{Drop: &d})
	}
	w.objects, w.copies = map[string]document{}, nil
	return out
}

// restore puts back what clear removed, at times with a change.
func (w *writer) restore() (out step) {
	for _, key := range slices.Sorted(maps.Keys(w.gone)) {
		d := w.gone[key]
		w.objects[key] = d
		out = append(out, action{Put: &d})
	}
	if w.often(5) {
		out = append(out, w.edit())
	}
	return out
}

func (w *writer) arrival() action {
	if names := slices.Sorted(maps.Keys(w.proxies)); len(names) > 0 {
		switch n := w.IntN(10); {
		case n < 2:
			name := pick(w.draw, names...)
			delete(w.proxies, name)
			return action{Leave: name}
		case n < 4:
			return action{Report: &report{Proxy: pick(w.draw, names...), Failure: pick(w.draw, "", "connection refused")}}
		}
	}
	p := w.proxy()
	w.proxies[p.Name] = true
	return action{Connect: p}
}
