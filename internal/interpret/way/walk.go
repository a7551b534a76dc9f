package way

import (
	"cmp"
	"fmt"
	"slices"
)

// Walk is the state of one way.
type Walk struct {
	*Shared
	Way      Way
	Resource string // the resource of the current step
	plan     *plan
	notes    int // alternatives listed so far
}

// Shared is the part of an interpretation that all its ways share.
type Shared struct {
	regexes map[string]compiled
	valid   map[string]bool // resources that were checked
	work    int
}

// Explore follows each way, with the same function. It returns an error if the function meets an invalid message.
func Explore(follow func(*Walk)) (answer Answer, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case invalid:
			answer, err = Answer{}, p.err
		default:
			panic(p)
		}
	}()
	s, plan, ways := &Shared{regexes: map[string]compiled{}, valid: map[string]bool{}}, &plan{}, 0
	for {
		w := &Walk{Shared: s, plan: plan, Way: Way{Probability: 1}}
		w.run(follow)
		answer.add(w.Way)
		if ways++; !plan.next() {
			break
		}
		if ways == mostWays || s.work > mostWork {
			answer.Truncated = true
			break
		}
	}
	slices.SortStableFunc(answer.Ways, func(a, b Way) int {
		return cmp.Or(cmp.Compare(len(a.Conditions), len(b.Conditions)), cmp.Compare(b.Probability, a.Probability))
	})
	return answer, nil
}

// run follows the way to its end.
func (w *Walk) run(follow func(*Walk)) {
	defer func() {
		if p := recover(); p != nil && p != (stop{}) {
			panic(p)
		}
	}()
	follow(w)
}

// Bounds on the work for an answer.
const (
	mostDepth = 64
	mostWork  = 20_000_000
	mostWays  = 64
	mostSteps = 2000 // alternatives that a way lists
)

// plan is the list of choices of a way. The ways differ in their choices: next changes the last one that has more options.
type plan struct {
	picks, options []int
	at             int
}

func (p *plan) pick(options int) int {
	if p.at == len(p.picks) {
		p.picks, p.options = append(p.picks, 0), append(p.options, options)
	}
	p.at++
	return p.picks[p.at-1]
}

// next moves to the next way; false: there is none.
func (p *plan) next() bool {
	p.at = 0
	for len(p.picks) > 0 {
		last := len(p.picks) - 1
		if p.picks[last]++; p.picks[last] < p.options[last] {
			return true
		}
		p.picks, p.options = p.picks[:last], p.options[:last]
	}
	return false
}

// stop is the panic of a way that has come to its end.
type stop struct{}

// End ends the way.
func (w *Walk) End(o Outcome) {
	w.Way.Outcome = o
	panic(stop{})
}

// CannotSay ends the way because the interpreter does not know more.
func (w *Walk) CannotSay(format string, args ...any) {
	w.End(Outcome{Kind: Unknown, Reason: fmt.Sprintf(format, args...)})
}

// Closed ends the way with a closed connection.
func (w *Walk) Closed(format string, args ...any) {
	w.End(Outcome{Kind: Closed, Reason: fmt.Sprintf(format, args...)})
}

// Doubt notes a reason why the way may be different.
func (w *Walk) Doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.Way.Doubts, text) {
		w.Way.Doubts = append(w.Way.Doubts, text)
	}
}

// Spend ends the way if too much work has been done.
func (w *Walk) Spend(n int) {
	if w.work += n; w.work > mostWork {
		w.CannotSay("the configuration is too large: the interpreter gives up after %d comparisons", mostWork)
	}
}

// Option is one way on. Without a chance, its condition is unknown.
type Option struct {
	Chance    float64
	Condition string
}

// Choose picks one of several options; all options of the plan are tried. Options without any chance are left out if others have one.
func (w *Walk) Choose(options ...Option) int {
	var left []int
	for i, o := range options {
		if o.Chance > 0 || o.Condition != "" {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return 0
	}
	picked := left[0]
	if len(left) > 1 {
		picked = left[w.plan.pick(len(left))]
	}
	o := options[picked]
	if o.Condition != "" {
		w.Way.Conditions = append(w.Way.Conditions, o.Condition)
	} else {
		w.Way.Probability *= o.Chance
	}
	return picked
}

// Happens decides something that has a chance.
func (w *Walk) Happens(chance float64) bool {
	return w.Choose(Option{Chance: chance}, Option{Chance: 1 - chance}) == 0
}

// Assume decides something that the interpreter cannot know: both ways are followed.
func (w *Walk) Assume(condition string) bool {
	return w.Choose(Option{Condition: condition}, Option{Condition: "not: " + condition}) == 0
}

// Step adds a step and returns it.
func (w *Walk) Step(stage, resource, part, format string, args ...any) *Step {
	w.Way.Steps = append(w.Way.Steps, Step{Stage: stage, Resource: resource, Part: part, Decision: fmt.Sprintf(format, args...)})
	return &w.Way.Steps[len(w.Way.Steps)-1]
}

// Pass notes that an alternative did not match.
func (w *Walk) Pass(list *[]Passed, part, reason string) {
	w.Spend(1)
	if w.notes++; w.notes <= mostSteps {
		*list = append(*list, Passed{part, reason})
	}
}

// Decide follows both ways if a result is unknown.
func (w *Walk) Decide(t Tri, condition string) bool {
	if t == Unsure {
		return w.Assume(condition)
	}
	return t == Yes
}
