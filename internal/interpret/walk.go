package interpret

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/mesh/regex"
)

// Explain follows a request through the resources of a proxy. It returns an error if the request is too large, or if a resource that the
// request meets is invalid.
func Explain(config Config, request Request) (answer Answer, err error) {
	if err := request.check(); err != nil {
		return Answer{}, err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case invalid:
			answer, err = Answer{}, p.err
		default:
			panic(p)
		}
	}()
	s := &shared{config: config, regexes: map[string]*regexp.Regexp{}}
	plan := &plan{}
	for {
		answer.Ways = append(answer.Ways, newWalk(s, plan, request).run())
		if !plan.next() {
			break
		}
		if len(answer.Ways) == mostWays || s.work > mostWork {
			answer.Truncated = true
			break
		}
	}
	slices.SortStableFunc(answer.Ways, func(a, b Way) int {
		return cmp.Or(cmp.Compare(len(a.Conditions), len(b.Conditions)), cmp.Compare(b.Probability, a.Probability))
	})
	return answer, nil
}

// shared is the part of an interpretation that all its ways share.
type shared struct {
	config  Config
	regexes map[string]*regexp.Regexp
	hosts   map[string][]*routev3.VirtualHost // virtual hosts that are resources of their own, by route configuration
	work    int
}

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

// walk is the state of one way.
type walk struct {
	*shared
	plan  *plan
	asked Request
	way   Way
	notes int // alternatives listed so far

	addresses
	tlsSeen   bool     // a listener filter reads the TLS hello
	protocols []string // application protocols that listener filters found
	name      string   // server name that listener filters found
	resource  string   // the resource of this step
	http      *http
}

func newWalk(s *shared, p *plan, r Request) *walk {
	return &walk{shared: s, plan: p, asked: r, way: Way{Probability: 1}, addresses: addresses{r.Destination, r.Source}}
}

// stop is the panic of a way that has come to its end.
type stop struct{}

// run follows the way to its end.
func (w *walk) run() Way {
	func() {
		defer func() {
			if p := recover(); p != nil && p != (stop{}) {
				panic(p)
			}
		}()
		w.connect()
	}()
	return w.way
}

// end ends the way.
func (w *walk) end(o Outcome) {
	w.way.Outcome = o
	panic(stop{})
}

// cannotSay ends the way because the interpreter does not know more.
func (w *walk) cannotSay(format string, args ...any) {
	w.end(Outcome{Kind: Unknown, Reason: fmt.Sprintf(format, args...)})
}

// closed ends the way with a closed connection.
func (w *walk) closed(format string, args ...any) {
	w.end(Outcome{Kind: Closed, Reason: fmt.Sprintf(format, args...)})
}

// doubt notes a reason why the way may be different.
func (w *walk) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.way.Doubts, text) {
		w.way.Doubts = append(w.way.Doubts, text)
	}
}

// spend ends the way if too much work has been done.
func (w *walk) spend(n int) {
	if w.work += n; w.work > mostWork {
		w.cannotSay("the configuration is too large: the interpreter gives up after %d comparisons", mostWork)
	}
}

// option is one way on. Without a chance, its condition is unknown.
type option struct {
	chance    float64
	condition string
}

// choose picks one of several options; all options of the plan are tried. Options without any chance are left out if others have one.
func (w *walk) choose(options ...option) int {
	var left []int
	for i, o := range options {
		if o.chance > 0 || o.condition != "" {
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
	if o.condition != "" {
		w.way.Conditions = append(w.way.Conditions, o.condition)
	} else {
		w.way.Probability *= o.chance
	}
	return picked
}

// happens decides something that has a chance.
func (w *walk) happens(chance float64) bool {
	return w.choose(option{chance: chance}, option{chance: 1 - chance}) == 0
}

// assume decides something that the interpreter cannot know: both ways are followed.
func (w *walk) assume(condition string) bool {
	return w.choose(option{condition: condition}, option{condition: "not: " + condition}) == 0
}

// step adds a step and returns it.
func (w *walk) step(stage, resource, part, format string, args ...any) *Step {
	w.way.Steps = append(w.way.Steps, Step{Stage: stage, Resource: resource, Part: part, Decision: fmt.Sprintf(format, args...)})
	return &w.way.Steps[len(w.way.Steps)-1]
}

// pass notes that an alternative did not match.
func (w *walk) pass(list *[]Passed, part, reason string) {
	w.spend(1)
	if w.notes++; w.notes <= mostSteps {
		*list = append(*list, Passed{part, reason})
	}
}

// objects returns the users' objects that metadata names.
func objects(m *corev3.Metadata) []string {
	if text := m.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue(); text != "" {
		return []string{text}
	}
	return nil
}

// tri is the result of a condition: it may be unknown.
type tri uint8

const (
	no tri = iota
	yes
	unsure
)

func of(b bool) tri {
	if b {
		return yes
	}
	return no
}

func (t tri) not() tri {
	switch t {
	case no:
		return yes
	case yes:
		return no
	}
	return unsure
}

// invert is not, if it is asked for.
func (t tri) invert(asked bool) tri {
	if asked {
		return t.not()
	}
	return t
}

// all is yes if every part is, and any if one part is; parts after the first that decides are not evaluated.
func all(n int, part func(int) tri) tri {
	out := yes
	for i := range n {
		switch part(i) {
		case no:
			return no
		case unsure:
			out = unsure
		}
	}
	return out
}

func any1(n int, part func(int) tri) tri {
	return all(n, func(i int) tri { return part(i).not() }).not()
}

// decide follows both ways if a result is unknown.
func (w *walk) decide(t tri, condition string) bool {
	if t == unsure {
		return w.assume(condition)
	}
	return t == yes
}

// regex matches a whole text. Envoy's engine takes bytes, so text that is not ASCII is not interpreted.
func (w *walk) regex(pattern, text string) tri {
	w.spend(len(pattern) + len(text))
	re := w.compile(pattern, true)
	if !ascii(text) || !ascii(pattern) {
		return unsure
	}
	return of(re.MatchString(text))
}

// compile compiles an expression once, for whole texts or for parts of them.
func (w *walk) compile(pattern string, whole bool) *regexp.Regexp {
	text := pattern
	if whole {
		text = `\A(?:` + pattern + `)\z`
	}
	if re, known := w.regexes[text]; known {
		return re
	}
	w.spend(10 * len(pattern))
	if err := regex.Check(pattern); err != nil {
		refuse(w.resource, "regex %s: %v", quote(pattern), err)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		refuse(w.resource, "regex %s: %v", quote(pattern), err)
	}
	w.regexes[text] = re
	return re
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
