package mcpxds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// result is what one answer comes to.
type result struct {
	kind     *kind
	set      []*config.Object
	gone     []config.Key
	by       *platform.Outbox
	problems map[string][]mesh.Problem
	refused  []string // the first ones
	more     int      // others
}

// shards returns what changed, in parts that the outbox hands on whole. Removals come last, after the rows that replace them; a row with a
// new name is not removed.
func (t *result) shards() (out []source.Shard) {
	at := source.ShardKey{Kind: t.kind.types[0]}
	for part := range slices.Chunk(t.set, source.PieceRows) {
		out = append(out, source.Shard{Key: at, Rows: source.Rows{Objects: part}})
	}
	gone := slices.DeleteFunc(t.gone, func(k config.Key) bool { return t.kind.names[k] != "" })
	for part := range slices.Chunk(gone, source.PieceRows) {
		out = append(out, source.Shard{Key: at, Gone: source.Keys{Objects: part}})
	}
	return out
}

// addRefusal adds the reason of a refusal, unless there are enough reasons.
func (t *result) addRefusal(why func() string) {
	if len(t.refused) < maxRefused {
		t.refused = append(t.refused, why())
	} else {
		t.more++
	}
}

// without lists the names of held or refused objects that are not among some.
func (t *result) without(some map[string]bool) (out []string) {
	for name := range t.kind.objects {
		if !some[name] {
			out = append(out, name)
		}
	}
	for _, place := range t.by.Places(t.kind.place("")) {
		name := strings.TrimPrefix(place, t.kind.place(""))
		if _, held := t.kind.objects[name]; !held && !some[name] {
			out = append(out, name)
		}
	}
	return out
}

// note reports the problems of a name, in place of its earlier ones.
func (t *result) note(name string, problems []mesh.Problem) {
	if place := t.kind.place(name); len(problems) > 0 || t.by.Reported(place) {
		t.problems[place] = problems
	}
}

// place returns the place of the problems of a name.
func (k *kind) place(name string) string { return k.types[0] + " " + name }

// refuse notes that a name is not taken, and why: the held version stays.
func (t *result) refuse(name string, problems []mesh.Problem) {
	t.note(name, problems)
	if h, has := t.kind.objects[name]; has {
		h.sum = 0 // so that the held version, if it comes again, is not skipped as unchanged
		t.kind.objects[name] = h
	}
	t.addRefusal(func() string {
		why := "it is not valid"
		for _, p := range problems {
			if p.Severity == mesh.Error {
				why = strings.TrimPrefix(p.Field+": "+p.Message, ": ")
				break
			}
		}
		return printable.Text(name, printable.Short) + ": " + why
	})
}

// resource takes one resource.
func (s *state) resource(out *result, r item) {
	k, name := out.kind, r.name
	sum := xxhash.Sum64(r.any.GetValue())
	before, has := k.objects[name]
	if has && before.sum == sum {
		before.version = r.version
		k.objects[name] = before
		return
	}
	if !has && !k.costs.Set(name, cost(name, nil, nil)) { // what costs too much by itself is not even decoded
		return
	}
	message, err := unpack(r.any)
	if err != nil {
		out.refuse(name, []mesh.Problem{{
			Object: mesh.ObjectRef{Kind: string(k.Kind), Name: printable.Text(name, printable.Short), File: s.opts.where()},
			Code:   code.WrongType, Severity: mesh.Error, Message: err.Error(),
		}})
		k.keeps(name)
		return
	}
	o, problems := s.reader.Read(k.Kind, message)
	if o == nil {
		out.refuse(name, problems)
		k.keeps(name)
		return
	}
	if other, taken := k.names[o.Key]; taken && other != name {
		out.addRefusal(func() string { return fmt.Sprintf("%s: it is called %s inside, and %s is so too", name, o.Key, other) })
		k.keeps(name)
		return
	}
	if !k.costs.Set(name, cost(name, message, o)) {
		k.keeps(name)
		return
	}
	out.note(name, problems)
	if has && before.key != o.Key {
		s.remove(out, name)
		has = false
	}
	if !has {
		s.objects++
	}
	k.objects[name] = object{o.Key, r.version, sum}
	k.names[o.Key] = name
	out.set = append(out.set, o)
}

// remove removes the object under a name.
func (s *state) remove(out *result, name string) {
	k := out.kind
	out.note(name, nil)
	h, has := k.objects[name]
	if !has {
		return
	}
	delete(k.objects, name)
	delete(k.names, h.key)
	k.costs.Remove(name)
	s.objects--
	out.gone = append(out.gone, h.key)
}

// keeps gives back the charge of a name if nothing is held under it after all.
func (k *kind) keeps(name string) {
	if _, has := k.objects[name]; !has {
		k.costs.Remove(name)
	}
}
