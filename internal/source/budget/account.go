package budget

import (
	"fmt"
	"strings"
	"sync"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Cost is what something costs, or what may be spent in all.
type Cost struct {
	Bytes     int64 // of memory, as the source estimates it
	Things    int   // services, slices, workloads, objects, whatever has a key
	Endpoints int
	Ports     int
}

// Bounds are the most that one account may hold. A field that is 0 has no bound.
type Bounds = Cost

// Default returns the bounds of a source that may use any server.
func Default() Bounds {
	return Bounds{Bytes: 128 << 20, Things: 200_000, Endpoints: 200_000, Ports: 200_000}
}

// MaxPorts is how many ports one service may have. The first ones count.
const MaxPorts = 256

// And returns the sum of two costs.
func (c Cost) And(o Cost) Cost {
	return Cost{c.Bytes + o.Bytes, c.Things + o.Things, c.Endpoints + o.Endpoints, c.Ports + o.Ports}
}

func (c Cost) less(o Cost) Cost {
	return Cost{c.Bytes - o.Bytes, c.Things - o.Things, c.Endpoints - o.Endpoints, c.Ports - o.Ports}
}

// most takes the larger of each field.
func most(a, b Cost) Cost {
	return Cost{max(a.Bytes, b.Bytes), max(a.Things, b.Things), max(a.Endpoints, b.Endpoints), max(a.Ports, b.Ports)}
}

// field is one field of a Cost in words.
type field struct {
	word, option string
	is           int64
}

func (c Cost) fields() [4]field {
	return [4]field{
		{"bytes", "maxBytes", c.Bytes}, {"things", "maxObjects", int64(c.Things)},
		{"endpoints", "maxInstances", int64(c.Endpoints)}, {"ports", "maxPorts", int64(c.Ports)},
	}
}

// Account sums up what one source keeps. It is safe for concurrent use.
type Account struct {
	source string
	bounds Bounds
	fix    string

	mu       sync.Mutex
	used     Cost
	left     uint64  // charges that did not fit, in all ledgers
	reported uint64  // left, when Problem reported it
	full     [4]bool // the fields in which something did not fit
}

// NewAccount returns an account of a source, as problems name it. fix says in a problem what to do; empty: a sentence that names the
// options maxBytes, maxObjects, maxInstances and maxPorts, as far as they are exceeded.
func NewAccount(source string, b Bounds, fix string) *Account {
	return &Account{source: source, bounds: b, fix: fix}
}

// Used returns the sums of all that the source keeps.
func (a *Account) Used() Cost {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Left returns how many charges did not fit since the last whole lists. A thing that came several times counts several times.
func (a *Account) Left() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// change adds now and subtracts before, unless a sum that grows would be beyond its bound. force does it all the same.
func (a *Account) change(before, now Cost, force bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.used.And(now).less(before)
	if !force {
		fits := true
		bounds, was, is := a.bounds.fields(), a.used.fields(), next.fields()
		for i := range bounds {
			if bounds[i].is > 0 && is[i].is > bounds[i].is && is[i].is > was[i].is {
				a.full[i], fits = true, false
			}
		}
		if !fits {
			return false
		}
	}
	a.used = next
	return true
}

// leave adds to the number of charges that did not fit.
func (a *Account) leave(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left = uint64(max(0, int64(a.left)+n)); a.left == 0 {
		a.full = [4]bool{}
	}
}

// Room reports whether things that were left out may fit now: each sum that was full is below seven eighths of its bound. The
// caller then reads everything again. It must wait between two such reads.
func (a *Account) Room() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left == 0 || a.full == [4]bool{} {
		return false
	}
	bounds, used := a.bounds.fields(), a.used.fields()
	for i, full := range a.full {
		if full && used[i].is > bounds[i].is/8*7 {
			return false
		}
	}
	return true
}

// Problem returns the problem of things that were left out; none if all fitted. changed reports whether to say it: the first time,
// each time the number has doubled, and once all fits again.
func (a *Account) Problem() (problems []mesh.Problem, changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = (a.left == 0) != (a.reported == 0) || a.left >= 2*a.reported && a.left > 0 || a.left < a.reported/2
	if changed {
		a.reported = a.left
	}
	if a.left == 0 {
		return nil, changed
	}
	var words, options []string
	bounds, used := a.bounds.fields(), a.used.fields()
	for i, b := range bounds {
		if a.full[i] {
			words = append(words, fmt.Sprintf("%d of at most %d %s", used[i].is, b.is, b.word))
			options = append(options, b.option)
		}
	}
	message := fmt.Sprintf("the source has more than its limits allow (%s); the last ones are left out, %d so far",
		strings.Join(words, ", "), a.reported)
	fix := a.fix
	switch {
	case len(words) == 0:
		message = fmt.Sprintf(
			"%d things of the source are left out: each is too large, or in a list that is too long", a.reported)
		fix = "make them smaller where they come from"
	case fix == "":
		fix = "raise " + strings.Join(options, " and ") + ", or have the source offer less"
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "source", Name: a.source}, Code: code.TooMuch, Severity: mesh.Error, Message: message, Fix: fix,
	}}, changed
}
