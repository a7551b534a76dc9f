package budget

import (
	"fmt"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// DefaultRefusals is how many places of a source are remembered that have problems.
const DefaultRefusals = 1000

// Refusals remembers which places of a source have problems: names that are refused, objects that are wrong. Beyond a bound they are
// counted and not remembered. It belongs to one goroutine.
type Refusals struct {
	source   string
	most     int
	places   map[string]struct{}
	more     uint64 // that were not remembered, since Begin
	reported uint64
}

// NewRefusals returns an empty one of a source, as problems name it. most: 0 is DefaultRefusals.
func NewRefusals(source string, most int) *Refusals {
	if most <= 0 {
		most = DefaultRefusals
	}
	return &Refusals{source: source, most: most, places: map[string]struct{}{}}
}

// Add notes that a place has problems. If it returns false, there are too many such places: the caller does not tell the problems, and
// keeps nothing of the place.
func (r *Refusals) Add(place string) bool {
	if _, has := r.places[place]; has {
		return true
	}
	if len(r.places) >= r.most {
		r.more++
		return false
	}
	r.places[place] = struct{}{}
	return true
}

// Remove notes that a place has no problems any more. It returns whether problems of it had been reported.
func (r *Refusals) Remove(place string) bool {
	_, had := r.places[place]
	delete(r.places, place)
	return had
}

// Full reports whether no more places are remembered.
func (r *Refusals) Full() bool { return len(r.places) >= r.most }

// Begin resets the count, because everything is about to be listed again.
func (r *Refusals) Begin() { r.more = 0 }

// Problem returns what to say about refusals that are not remembered; nothing if all are. changed reports whether to say it: the first
// time, each time the number has doubled, and once there are none.
func (r *Refusals) Problem() (problems []mesh.Problem, changed bool) {
	changed = (r.more == 0) != (r.reported == 0) || r.more >= 2*r.reported && r.more > 0 || r.more < r.reported/2
	if changed {
		r.reported = r.more
	}
	if r.more == 0 {
		return nil, changed
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "source", Name: r.source}, Code: code.TooManyProblems, Severity: mesh.Error,
		Message: fmt.Sprintf("%d things of the source have problems, the most that are listed; %d more refusals were only counted",
			r.most, r.reported),
		Fix: "correct the listed ones where they come from; then others are listed",
	}}, changed
}
