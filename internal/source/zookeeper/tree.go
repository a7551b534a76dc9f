package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/budget"
)

// kind is what a node that is followed says.
type kind uint8

const (
	interfaces    kind = iota // children: interfaces
	providers                 // children: providers' URLs, of an interface
	configurators             // children: what overrides them
	applications              // children: applications
	members                   // children: instances of an application
	member                    // content: an instance
	mappings                  // children: interfaces with known applications
	mapping                   // content: applications of an interface
	metadata                  // content: what an application serves; never changes
)

// lists reports whether it is a node's children that count, not its content.
func (k kind) lists() bool { return k != member && k != mapping && k != metadata }

// top reports whether nothing can be read if this cannot.
func (k kind) top() bool { return k == interfaces || k == applications }

// node is one that is followed.
type node struct {
	path string
	kind kind
	of   string // interface or application
	name string // of an instance, of a revision

	session  uint64               // the session that read it last; 0: none has
	has      map[string]time.Time // children, except of providers; for missing ones, when they go
	places   []provider           // of providers, those that are missing and kept too
	rules    []override           // of configurators
	instance instance             // of a member
	apps     []string             // of a mapping
	offers   []offer              // of metadata
	revised  map[string]bool      // of members: revisions with metadata that is followed
	problem  *mesh.Problem        // why it could not be read
	full     bool                 // there was no room for what it says
	bad      []mesh.Problem       // the mistakes in its content
}

// problemsOfNode is how many mistakes of one node are reported.
const problemsOfNode = 20

// tree is the state that was read. One goroutine owns it.
type tree struct {
	o       Options
	keep    time.Duration // how long what a new session does not find counts
	name    string
	to      translators
	session uint64 // counts; 0: there was none
	nodes   map[string]*node
	of      map[string][]string // applications by interface, turned round: interfaces of an application
	places  int                 // of all nodes

	wanted  []string // paths to read
	waits   map[string]bool
	reading map[string]bool // paths that are being read; true: they are wanted again

	changedInterfaces, changedApplications map[string]bool
	since                                  time.Time            // when the first of them was there
	sent                                   map[string][]string  // parts of shards, by interface or application
	retry                                  map[string]time.Time // nodes that could not be read, and when to try again
	holding                                int                  // children that are missing, and kept
	due                                    time.Time            // before it none of them goes
	hidden                                 map[string]int       // how many children are left out because there are too many, by path
	account                                *budget.Account
	costs                                  *budget.Ledger[string] // by path
}

func newTree(name string, o Options) *tree {
	t := &tree{
		o: o, keep: o.Kept(defaultKeep), name: name, to: newTranslators(name, o), nodes: map[string]*node{}, of: map[string][]string{},
		waits: map[string]bool{}, reading: map[string]bool{},
		changedInterfaces: map[string]bool{}, changedApplications: map[string]bool{}, sent: map[string][]string{},
		retry: map[string]time.Time{}, hidden: map[string]int{},
		account: budget.NewAccount(name, budget.Bounds{Bytes: o.MaxBytes}, ""),
	}
	t.costs = budget.NewLedger[string](t.account)
	if o.InterfaceRoot != none {
		t.follow(&node{path: o.Chroot + o.InterfaceRoot, kind: interfaces})
		t.follow(&node{path: o.Chroot + o.InterfaceRoot + "/mapping", kind: mappings})
	}
	if o.ApplicationRoot != none {
		t.follow(&node{path: o.Chroot + o.ApplicationRoot, kind: applications})
	}
	return t
}

func (t *tree) follow(n *node) {
	if t.nodes[n.path] == nil {
		if n.kind.lists() && n.kind != providers && n.kind != configurators {
			n.has = map[string]time.Time{}
		}
		t.nodes[n.path] = n
		t.want(n.path)
	}
}

// want has a node read again.
func (t *tree) want(path string) {
	if t.nodes[path] != nil && !t.waits[path] {
		t.waits[path] = true
		t.wanted = append(t.wanted, path)
	}
}

// next returns the next path to read, the one wanted first. A path that is being read waits until done: the older of two answers
// under way could come last.
func (t *tree) next() string {
	for len(t.wanted) > 0 {
		path := t.wanted[0]
		t.wanted = t.wanted[1:]
		delete(t.waits, path)
		if t.nodes[path] == nil {
			continue
		}
		if _, being := t.reading[path]; being {
			t.reading[path] = true
			continue
		}
		t.reading[path] = false
		return path
	}
	t.wanted = nil
	return ""
}

// done ends the reading of a path that next returned.
func (t *tree) done(path string) {
	again := t.reading[path]
	delete(t.reading, path)
	if again {
		t.want(path)
	}
}

// begin begins a session: everything is read again.
func (t *tree) begin() {
	t.session++
	clear(t.retry)
	clear(t.reading)
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		if t.nodes[path].kind != metadata || len(t.nodes[path].offers) == 0 {
			t.want(path)
		}
	}
}

// drop stops following a node.
func (t *tree) drop(path string) {
	n := t.nodes[path]
	if n == nil {
		return
	}
	delete(t.nodes, path)
	t.costs.Remove(path)
	if n.full {
		t.costs.Leave(-1)
	}
	delete(t.retry, path)
	delete(t.hidden, path)
	t.places -= len(n.places)
	if n.kind == member {
		t.places--
	}
	for _, until := range n.has {
		if !until.IsZero() {
			t.holding--
		}
	}
	for _, p := range n.places {
		if p.until != 0 {
			t.holding--
		}
	}
	switch n.kind {
	case members:
		for child := range n.has {
			t.drop(path + "/" + child)
		}
		for revision := range n.revised {
			t.drop(t.metadataPath(n.of, revision))
		}
	case mapping:
		t.setMapping(n, nil)
	}
}

// failed notes why a node could not be read: its last content stays. The error is one that ends the session.
func (t *tree) failed(n *node, why error, now time.Time) error {
	full := errors.Is(why, errFull)
	if n.kind.top() && !full && !errors.Is(why, errFlaps) {
		return fmt.Errorf("%s: %w", n.path, why)
	}
	p := mesh.Problem{
		Object: t.ref(n), Field: n.path, Code: code.Unreadable, Severity: mesh.Error,
		Message: printable.Text(n.path, printable.Short) + ": " + why.Error() + "; what it said last stays",
	}
	switch {
	case full:
		p.Code, p.Fix = code.TooMuch, "give the registry a higher maxBytes"
	case errors.Is(why, errTooLarge):
		p.Code, p.Fix = code.TooMuch, "give the registry a higher maxAnswerMiB"
	}
	n.problem = &p
	t.retry[n.path] = now.Add(retryNode)
	if errors.Is(why, errFlaps) {
		t.retry[n.path] = now.Add(time.Second)
	}
	t.touch(n)
	return nil
}

// errFull says that the content of a node would take more memory than the registry may use.
var errFull = errors.New("there is no room for its data: maxBytes limits all data that is read")

// later has a node read again at a time.
func (t *tree) later(path string, at time.Time) {
	if t.nodes[path] != nil {
		t.retry[path] = at
	}
}

// retryNode is after how long a node is read again that could not be.
const retryNode = 15 * time.Second

func (t *tree) ref(n *node) mesh.ObjectRef {
	return mesh.ObjectRef{Kind: t.name, Name: printable.Text(cmp.Or(n.of, n.path), printable.Short)}
}

// readAgain has nodes read again that could not be read, once their time has come. Nodes that there was no room for wait until there
// may be room.
func (t *tree) readAgain(now time.Time) {
	room := t.account.Room()
	for path, at := range t.retry {
		if now.Before(at) || t.nodes[path].full && !room {
			continue
		}
		delete(t.retry, path)
		t.want(path)
	}
}

// expire removes things that were kept long enough.
func (t *tree) expire(now time.Time) {
	if t.holding == 0 || now.Before(t.due) {
		return
	}
	t.due = now.Add(t.keep)
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[path]
		if n == nil {
			continue
		}
		for child, until := range n.has {
			if t.awaits(until); until.IsZero() || now.Before(until) {
				continue
			}
			delete(n.has, child)
			t.holding--
			t.leave(n, child)
		}
		before := len(n.places)
		n.places = slices.DeleteFunc(n.places, func(p provider) bool {
			if p.until == 0 {
				return false
			}
			until := time.Unix(0, p.until)
			t.awaits(until)
			return !now.Before(until)
		})
		if gone := before - len(n.places); gone > 0 {
			t.holding -= gone
			t.places -= gone
			t.touch(n)
		}
	}
	t.since = now
}

// hold keeps a missing thing for a while, and returns until when.
func (t *tree) hold(now time.Time) time.Time {
	until := now.Add(t.keep)
	if t.holding == 0 {
		t.due = until
	}
	t.holding++
	return until
}

// awaits makes expire look no later than at a time; zero: there is none.
func (t *tree) awaits(until time.Time) {
	if !until.IsZero() && until.Before(t.due) {
		t.due = until
	}
}

// services returns how many there are.
func (t *tree) services() (n int) {
	for _, parts := range t.sent {
		n += len(parts)
	}
	return n
}
