package door

import (
	"fmt"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// claims says which source's version of an object counts: the first in order of Options.Sources that has one.
// The others are told by a problem, and take over when it goes. Callers hold Door.mu.
type claims struct {
	order    map[string]int // precedence by source; those not in it come last
	objects  map[config.Key]*entry
	services map[mesh.ServiceKey]*entry

	own   map[place][]mesh.Problem          // what sources said themselves
	notes map[place]map[*entry]mesh.Problem // what the door adds to that
	noted map[*entry][]place                // where notes of an object stand
}

// place is a file, or whatever else a source says problems of.
type place struct{ source, file string }

func newClaims(sources []string) claims {
	order := map[string]int{}
	for i, s := range sources {
		order[s] = i - len(sources)
	}
	return claims{
		order:    order,
		objects:  map[config.Key]*entry{},
		services: map[mesh.ServiceKey]*entry{},
		own:      map[place][]mesh.Problem{},
		notes:    map[place]map[*entry]mesh.Problem{},
		noted:    map[*entry][]place{},
	}
}

// take notes what a source says and returns the entries whose want may have changed, in the order the batch names them first.
func (c *claims) take(b source.Batch) []*entry {
	t := touched{}
	for _, k := range b.Delete {
		if e := c.objects[k]; e != nil {
			c.resign(t.touch(e), b.Source)
		}
	}
	for _, k := range b.DeleteServices {
		if e := c.services[k]; e != nil {
			c.resign(t.touch(e), b.Source)
		}
	}
	for _, o := range b.Set {
		c.claim(t.touch(c.object(o.Key)), b.Source, item{object: o})
	}
	for _, s := range b.Services {
		c.claim(t.touch(c.serviceEntry(s.Key)), b.Source, item{service: s})
	}
	for _, e := range t.entries {
		e.touched = false
	}
	return t.entries
}

// touched collects entries, each once.
type touched struct{ entries []*entry }

func (t *touched) touch(e *entry) *entry {
	if !e.touched {
		e.touched = true
		t.entries = append(t.entries, e)
	}
	return e
}

func (c *claims) object(k config.Key) *entry {
	e := c.objects[k]
	if e == nil {
		e = &entry{key: k}
		c.objects[k] = e
	}
	return e
}

func (c *claims) serviceEntry(k mesh.ServiceKey) *entry {
	e := c.services[k]
	if e == nil {
		e = &entry{key: config.Key{Kind: "Service", Namespace: k.Namespace, Name: string(k.Host)}, service: &k}
		c.services[k] = e
	}
	return e
}

// forget drops an entry that says nothing any more.
func (c *claims) forget(e *entry) {
	if !e.applied.absent() || !e.want.absent() {
		return
	}
	if e.service != nil {
		delete(c.services, *e.service)
	} else {
		delete(c.objects, e.key)
	}
}

// claim notes that a source has a version of an entry.
func (c *claims) claim(e *entry, from string, i item) {
	switch {
	case e.source == from || e.source == "":
	case c.before(from, e.source):
		e.others = append(e.others, claim{e.source, e.want})
		c.withdraw(e, from)
	default:
		c.withdraw(e, from)
		e.others = append(e.others, claim{from, i})
		slices.SortFunc(e.others, c.compare)
		return
	}
	slices.SortFunc(e.others, c.compare)
	e.source, e.want = from, i
}

// resign notes that a source has no version of an entry any more: the next in precedence takes over.
func (c *claims) resign(e *entry, from string) {
	switch {
	case e.source != from:
		c.withdraw(e, from)
	case len(e.others) > 0:
		e.source, e.want = e.others[0].source, e.others[0].item
		c.withdraw(e, e.source)
	default:
		e.source, e.want = "", item{}
	}
}

func (c *claims) withdraw(e *entry, from string) {
	e.others = slices.DeleteFunc(e.others, func(o claim) bool { return o.source == from })
	if len(e.others) == 0 {
		e.others = nil
	}
}

func (c *claims) compare(a, b claim) int {
	if c.before(a.source, b.source) {
		return -1
	}
	return 1
}

// before says whether source a takes precedence over b: by order, those without one by name.
func (c *claims) before(a, b string) bool {
	if i, j := c.order[a], c.order[b]; i != j {
		return i < j
	}
	return a < b
}

// problems returns what is to be said of which file after a batch that touched entries: what sources said themselves merged with
// what the door found, for each place where either changed.
func (c *claims) problems(b source.Batch, entries []*entry) map[string]map[string][]mesh.Problem {
	changed := map[place]bool{}
	for file, list := range b.Problems {
		at := place{b.Source, file}
		changed[at] = true
		if len(list) == 0 {
			delete(c.own, at)
			continue
		}
		c.own[at] = list
	}
	for _, e := range entries {
		c.note(e, changed)
	}
	out := map[string]map[string][]mesh.Problem{}
	for at := range changed {
		if out[at.source] == nil {
			out[at.source] = map[string][]mesh.Problem{}
		}
		out[at.source][at.file] = c.merged(at)
	}
	return out
}

// note brings the notes of an entry up to date and adds the places where they stood and stand to changed.
func (c *claims) note(e *entry, changed map[place]bool) {
	for _, at := range c.noted[e] {
		changed[at] = true
		if delete(c.notes[at], e); len(c.notes[at]) == 0 {
			delete(c.notes, at)
		}
	}
	delete(c.noted, e)
	for _, o := range e.others {
		at := place{o.source, orElse(o.item.ref().File, e.key.String())}
		changed[at] = true
		if c.notes[at] == nil {
			c.notes[at] = map[*entry]mesh.Problem{}
		}
		c.notes[at][e] = duplicate(e, o)
		c.noted[e] = append(c.noted[e], at)
	}
}

func (c *claims) merged(at place) []mesh.Problem {
	if len(c.notes[at]) == 0 {
		return c.own[at]
	}
	out := slices.AppendSeq(slices.Clone(c.own[at]), maps.Values(c.notes[at]))
	slices.SortFunc(out, mesh.CompareProblem)
	return out
}

// duplicate tells the source of o that another source's version of e counts.
func duplicate(e *entry, o claim) mesh.Problem {
	return mesh.Problem{
		Object:   o.item.ref(),
		Code:     "DuplicateObject",
		Severity: mesh.Warning,
		Message: fmt.Sprintf(
			"%s at %s is not in force: %s has it too, and comes first",
			e.key,
			whereIs(o.source, o.item),
			whereIs(e.source, e.want),
		),
		Fix: "keep one of the two",
	}
}

func whereIs(from string, i item) string {
	s := fmt.Sprintf("source %q", from)
	if ref := i.ref(); ref.File != "" {
		s += fmt.Sprintf(" (%s:%d)", ref.File, ref.Line)
	}
	return s
}
