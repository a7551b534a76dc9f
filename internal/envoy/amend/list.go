package amend

import (
	"slices"

	"google.golang.org/protobuf/proto"
)

// element is an element of a list of named messages.
type element interface {
	comparable
	proto.Message
	GetName() string
}

// place says where a list changes.
type place struct {
	named string // which elements the match chooses; empty: any
	chose bool   // the match chooses elements
	last  int    // elements at the end that stay there: a terminal filter
}

// changeList applies the patch to a list of filters, in place. It returns the list, and whether the patch found its place.
func changeList[E element](p *Patch, open *Open, list []E, at place) ([]E, bool, error) {
	value, _ := p.value.(E)
	add := func(i int) ([]E, bool, error) {
		return slices.Insert(list, i, proto.CloneOf(value)), true, nil
	}
	end := max(0, len(list)-at.last)
	found := slices.IndexFunc(list, func(e E) bool { return at.chose && e.GetName() == at.named })
	switch p.op {
	case opAdd:
		return add(end)
	case opFirst:
		if at.chose && found < 0 {
			return list, false, nil
		}
		return add(0)
	case opBefore, opAfter:
		switch {
		case at.chose && found < 0:
			return list, false, nil
		case !at.chose && p.op == opBefore:
			return add(0)
		case !at.chose:
			return add(end)
		case p.op == opBefore:
			return add(found)
		}
		return add(found + 1)
	}
	matched := false
	out := make([]E, 0, len(list))
	for _, e := range list {
		if at.chose && e.GetName() != at.named {
			out = append(out, e)
			continue
		}
		matched = true
		switch {
		case p.op == opRemove:
			continue
		case p.op == opReplace:
			e = proto.CloneOf(value)
		default:
			if err := p.mergeInto(open, e); err != nil {
				return list, false, err
			}
		}
		out = append(out, e)
	}
	return out, matched, nil
}
