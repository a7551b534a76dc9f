package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
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
	mappings                  // children: interfaces whose applications are known
	mapping                   // content: applications of an interface
	metadata                  // content: what an application serves; never changes
)

// lists says whether it is a node's children that count, not its content.
func (k kind) lists() bool { return k != member && k != mapping && k != metadata }

// top says whether nothing can be read where this cannot.
func (k kind) top() bool { return k == interfaces || k == applications }

// node is one that is followed.
type node struct {
	path string
	kind kind
	of   string // interface or application
	name string // of an instance, of a revision

	session uint64               // in which it was read last; 0: it has not been
	has     map[string]time.Time // children, but for providers; of those that are missing, when they go
	places  []provider           // of providers, those that are missing and kept too
	rules   []override           // of configurators
	said    instance             // of a member
	apps    []string             // of a mapping
	offers  []offer              // of metadata
	revised map[string]bool      // of members: the revisions whose metadata is followed
	problem *mesh.Problem        // why it could not be read
	full    bool                 // there was no room for what it says
	bad     []mesh.Problem       // what is wrong with what it says
}

// answer is what reading a node gave.
type answer struct {
	path  string
	begun time.Time
	names []string
	text  []byte
	err   error
}

// problemsOfNode is how many mistakes of one node are told.
const problemsOfNode = 20

// tree is what was read. One goroutine owns it.
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
	told                                   map[string]bool      // places that have problems
	retry                                  map[string]time.Time // nodes that could not be read, and when to try again
	holding                                int                  // children that are missing, and kept
	hidden                                 map[string]int       // what is left out for there is too much, by path
	account                                *budget.Account
	costs                                  *budget.Ledger[string] // by path
	refused                                *budget.Refusals       // places with problems
}

func newTree(name string, o Options) *tree {
	t := &tree{
		o: o, keep: o.Kept(defaultKeep), name: name, to: newTranslators(name, o), nodes: map[string]*node{}, of: map[string][]string{},
		waits: map[string]bool{}, reading: map[string]bool{},
		changedInterfaces: map[string]bool{}, changedApplications: map[string]bool{}, sent: map[string][]string{},
		told: map[string]bool{}, retry: map[string]time.Time{}, hidden: map[string]int{},
		account: budget.NewAccount(name, budget.Bounds{Bytes: o.MaxBytes}, ""), refused: budget.NewRefusals(name, 0),
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

// next is a path to read, in the order in which they were wanted. One that is being read waits until done: of two answers that are
// under way the older could come last.
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

// done is the end of reading a path that next gave.
func (t *tree) done(path string) {
	again := t.reading[path]
	delete(t.reading, path)
	if again {
		t.want(path)
	}
}

// begin is the begin of a session: everything is read again.
func (t *tree) begin() {
	t.session++
	clear(t.retry)
	clear(t.reading)
	t.refused.Begin()
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

// failed notes why a node could not be read: what it said last stays. The error is one that ends the session.
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

// errFull says that what a node says would take more memory than there is for the registry.
var errFull = errors.New("there is no room for what it says: what is read may take maxBytes in all")

// later has a node read again at a time.
func (t *tree) later(path string, at time.Time) {
	if t.nodes[path] != nil {
		t.retry[path] = at
	}
}

// Memory that is charged for a node, and for a name or a place of it beside its texts, in bytes, about.
const (
	nodeBytes  = 500
	nameBytes  = 300
	placeBytes = 1650
)

// cost is what is charged for what a node says: a text that becomes places is charged as those are.
func (a answer) cost(k kind) budget.Cost {
	bytes := nodeBytes + 2*len(a.text)
	if k == member {
		bytes += placeBytes
	}
	for _, name := range a.names {
		bytes += nameBytes + 2*len(name)
	}
	return budget.Cost{Bytes: int64(bytes), Things: 1}
}

// retryNode is after how long a node is read again that could not be.
const retryNode = 15 * time.Second

func (t *tree) ref(n *node) mesh.ObjectRef {
	return mesh.ObjectRef{Kind: t.name, Name: printable.Text(cmp.Or(n.of, n.path), printable.Short)}
}

// take takes an answer in. The error is one that ends the session.
func (t *tree) take(a answer) error {
	n := t.nodes[a.path]
	if n == nil {
		return nil
	}
	if a.err != nil {
		return t.failed(n, a.err, a.begun)
	}
	if n.full {
		t.costs.Leave(-1)
	}
	var found registered
	cost := a.cost(n.kind)
	if n.kind == providers {
		room := t.o.MaxBytes - t.account.Used().Bytes + t.costs.Of(n.path).Bytes
		found = readProviders(a.names, t.o.Labels, room)
		cost = budget.Cost{Bytes: found.bytes, Things: 1}
	}
	if n.full = !t.costs.Set(n.path, cost); n.full {
		return t.failed(n, errFull, a.begun)
	}
	delete(t.retry, n.path)
	again := n.session != 0 && n.session != t.session
	n.session, n.problem, n.bad = t.session, nil, nil
	if t.since.IsZero() || a.begun.Before(t.since) {
		t.since = a.begun
	}
	switch n.kind {
	case interfaces, applications, mappings, members:
		t.takeList(n, a.names, again, a.begun)
	case providers:
		t.takeProviders(n, found, again, a.begun)
	case configurators:
		n.rules = nil
		for _, name := range a.names {
			rule, ok, err := parseOverride(name)
			if err != nil {
				n.wrong(t, name, err)
			} else if ok {
				n.rules = append(n.rules, rule)
			}
		}
		sortOverrides(n.rules)
	case member:
		t.takeMember(n, a.text)
	case mapping:
		t.setMapping(n, strings.Split(string(a.text), ","))
	case metadata:
		var err error
		if n.offers, err = parseMetadata(a.text); err != nil {
			n.wrong(t, n.name, err)
		}
	}
	t.touch(n)
	return nil
}

func (n *node) wrong(t *tree, name string, why error) {
	if len(n.bad) < problemsOfNode {
		n.bad = append(n.bad, mesh.Problem{
			Object: t.ref(n), Field: n.path, Code: code.BadValue, Severity: mesh.Warning,
			Message: printable.Text(name, printable.Short) + " is left out: " + why.Error(),
		})
	}
}

// merge makes the children of a node those that were found. What another session saw and this one does not is kept for a while.
func (t *tree) merge(n *node, found map[string]bool, again bool, now time.Time) (added, gone []string) {
	for _, child := range slices.Sorted(maps.Keys(found)) {
		until, had := n.has[child]
		if !had {
			added = append(added, child)
		} else if !until.IsZero() {
			t.holding--
		}
		n.has[child] = time.Time{}
	}
	for child, until := range n.has {
		switch {
		case found[child] || !until.IsZero():
		case again && t.keep > 0:
			n.has[child] = now.Add(t.keep)
			t.holding++
		default:
			delete(n.has, child)
			gone = append(gone, child)
		}
	}
	slices.Sort(gone)
	return added, gone
}

// reserved are the children of the root of interfaces that are none.
var reserved = map[string]bool{"mapping": true, "metadata": true, "config": true, "configurators": true}

func (t *tree) takeList(n *node, names []string, again bool, now time.Time) {
	slices.Sort(names)
	found := map[string]bool{}
	most := t.o.MaxServices
	if n.kind == members {
		most = platform.MaxInstances
	}
	delete(t.hidden, n.path)
	for _, name := range names {
		switch {
		case n.kind == interfaces && reserved[name]:
		case !isPath("/"+name) || strings.Contains(name, "/"):
			n.wrong(t, name, errors.New("it is no name"))
		case len(found) >= most:
			t.hidden[n.path]++
		default:
			found[name] = true
		}
	}
	added, gone := t.merge(n, found, again, now)
	for _, name := range added {
		t.come(n, name)
	}
	for _, name := range gone {
		t.leave(n, name)
	}
}

// come follows what a new child leads to.
func (t *tree) come(n *node, name string) {
	path := n.path + "/" + name
	switch n.kind {
	case interfaces:
		t.follow(&node{path: path + "/providers", kind: providers, of: name})
		t.follow(&node{path: path + "/configurators", kind: configurators, of: name})
	case mappings:
		t.follow(&node{path: path, kind: mapping, of: name})
	case applications:
		t.follow(&node{path: path, kind: members, of: name})
	case members:
		if t.places >= t.o.MaxInstances {
			t.hidden[n.path]++
			return
		}
		t.places++
		t.follow(&node{path: path, kind: member, of: n.of, name: name})
	}
}

func (t *tree) leave(n *node, name string) {
	path := n.path + "/" + name
	switch n.kind {
	case interfaces:
		t.drop(path + "/providers")
		t.drop(path + "/configurators")
		t.changedInterfaces[name] = true
	case applications:
		t.drop(path)
		t.changedApplications[name] = true
	case mappings, members:
		t.drop(path)
		t.touch(n)
	}
}

// registered are the providers of an interface as they were read.
type registered struct {
	places map[string]place // by id: the one that was registered there last
	order  []string         // ids, in the order in which they came
	bad    []badName        // the first of those that cannot be read
	bytes  int64            // that are charged for them: for what became of their URLs, whatever else these say
}

type badName struct {
	name string
	why  error
}

// readProviders reads the names of nodes below providers. It ends early once more is charged for them than there is room.
func readProviders(names, further []string, room int64) registered {
	out := registered{places: map[string]place{}, bytes: nodeBytes}
	for _, name := range names {
		if out.bytes > room {
			break
		}
		p, err := parseProvider(name, further)
		switch {
		case errors.Is(err, errNothing):
			continue
		case err != nil:
			if len(out.bad) < problemsOfNode {
				out.bad = append(out.bad, badName{name, err})
			}
			continue
		}
		id := p.id()
		old, has := out.places[id]
		if has && old.Stamp >= p.Stamp {
			continue
		}
		if has {
			out.bytes -= old.bytes()
		} else {
			out.order = append(out.order, id)
		}
		out.places[id] = p
		out.bytes += p.bytes()
	}
	return out
}

// bytes is what is charged for a place.
func (p place) bytes() int64 {
	return placeBytes + int64(2*len(p.Labels)+len(p.Group)+len(p.Version))
}

// takeProviders keeps one place for each address.
func (t *tree) takeProviders(n *node, found registered, again bool, now time.Time) {
	for _, bad := range found.bad {
		n.wrong(t, bad.name, bad.why)
	}
	delete(t.hidden, n.path)
	if more := t.places - len(n.places) + len(found.order) - t.o.MaxInstances; more > 0 {
		t.hidden[n.path] = min(more, len(found.order))
		found.order = found.order[:len(found.order)-t.hidden[n.path]]
	}
	next := make([]provider, 0, len(found.order))
	is := make(map[string]bool, len(found.order))
	for _, id := range found.order {
		is[id] = true
		next = append(next, found.places[id].provider())
	}
	for _, old := range n.places {
		there := is[old.place().id()]
		switch {
		case there && old.until != 0:
			t.holding--
		case there:
		case old.until != 0:
			next = append(next, old)
		case again && t.keep > 0:
			old.until = now.Add(t.keep).UnixNano()
			t.holding++
			next = append(next, old)
		}
	}
	t.places += len(next) - len(n.places)
	n.places = slices.Clip(next)
}

func (t *tree) takeMember(n *node, text []byte) {
	if n.said = (instance{}); text == nil { // it went before it was read
		return
	}
	said, err := parseInstance(text, t.o.Labels)
	if err != nil {
		n.wrong(t, n.name, err)
		return
	}
	n.said = said
	list := t.nodes[strings.TrimSuffix(n.path, "/"+n.name)]
	if list == nil || !said.remote || t.o.InterfaceRoot == none || strings.Contains(said.revision, "/") || !isPath("/"+said.revision) {
		return
	}
	if list.revised == nil {
		list.revised = map[string]bool{}
	}
	list.revised[said.revision] = true
	t.follow(&node{path: t.metadataPath(n.of, said.revision), kind: metadata, of: n.of, name: said.revision})
}

func (t *tree) metadataPath(application, revision string) string {
	return t.o.Chroot + t.o.InterfaceRoot + "/metadata/" + application + "/" + revision
}

func (t *tree) setMapping(n *node, apps []string) {
	for _, a := range n.apps {
		if t.of[a] = slices.DeleteFunc(t.of[a], func(i string) bool { return i == n.of }); len(t.of[a]) == 0 {
			delete(t.of, a)
		}
	}
	n.apps = nil
	for _, a := range apps {
		if a = strings.TrimSpace(a); a != "" && isPath("/"+a) && !slices.Contains(n.apps, a) && len(n.apps) < 1000 {
			n.apps = append(n.apps, a)
			t.of[a] = append(t.of[a], n.of)
		}
	}
	t.changedInterfaces[n.of] = true
}

// touch notes whose rows a node is for.
func (t *tree) touch(n *node) {
	switch n.kind {
	case providers, configurators, mapping:
		t.changedInterfaces[n.of] = true
	case members, member, metadata:
		t.changedApplications[n.of] = true
		for _, i := range t.of[n.of] {
			t.changedInterfaces[i] = true
		}
	}
}

// readAgain has nodes read again that could not be read, once their time has come: those for which there was no room once there may be.
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

// expire lets go what was kept long enough.
func (t *tree) expire(now time.Time) {
	if t.holding == 0 {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[path]
		if n == nil {
			continue
		}
		for child, until := range n.has {
			if until.IsZero() || now.Before(until) {
				continue
			}
			delete(n.has, child)
			t.holding--
			t.leave(n, child)
		}
		before := len(n.places)
		n.places = slices.DeleteFunc(n.places, func(p provider) bool { return p.until != 0 && now.UnixNano() >= p.until })
		if gone := before - len(n.places); gone > 0 {
			t.holding -= gone
			t.places -= gone
			t.touch(n)
		}
	}
	t.since = now
}

// chunk is how many services are handed over at once.
const chunk = 500

// changes makes the shards of what became different, some of it: none are left where shards and problems are empty.
func (t *tree) changes() (shards []source.Shard, problems map[string][]mesh.Problem) {
	problems = map[string][]mesh.Problem{}
	count := 0
	for _, set := range []struct {
		changed map[string]bool
		make    func(string) (string, []source.Shard, []mesh.Problem, bool)
	}{{t.changedInterfaces, t.interfaceRows}, {t.changedApplications, t.applicationRows}} {
		for _, name := range slices.Sorted(maps.Keys(set.changed)) {
			if count == chunk {
				return shards, problems
			}
			count++
			delete(set.changed, name)
			at, made, said, ok := set.make(name)
			if !ok {
				t.tell(problems, at, said)
				continue
			}
			shards = append(shards, t.replaced(at, made)...)
			t.tell(problems, at, said)
		}
	}
	top := t.o.Chroot + t.o.InterfaceRoot
	of := t.saidOf(t.nodes[top], t.nodes[top+"/mapping"], t.nodes[t.o.Chroot+t.o.ApplicationRoot])
	t.tell(problems, t.o.Chroot+"/", append(t.beyond(), of...))
	if list, changed := t.account.Problem(); changed {
		problems[" budget"] = list
	}
	if list, changed := t.refused.Problem(); changed {
		problems[" refusals"] = list
	}
	return shards, problems
}

// replaced adds the shards that are no more.
func (t *tree) replaced(at string, made []source.Shard) []source.Shard {
	var parts []string
	for _, s := range made {
		parts = append(parts, s.Key.Part)
	}
	for _, part := range t.sent[at] {
		if !slices.Contains(parts, part) {
			made = append(made, source.Shard{Key: source.ShardKey{Kind: platform.Kind, Part: part}, Whole: true})
		}
	}
	if len(parts) == 0 {
		delete(t.sent, at)
	} else {
		t.sent[at] = parts
	}
	return made
}

// mostSaid is how many problems of one place are told.
const mostSaid = 100

func (t *tree) tell(problems map[string][]mesh.Problem, at string, said []mesh.Problem) {
	if len(said) == 0 {
		t.refused.Remove(at)
	} else if !t.refused.Add(at) {
		return
	}
	said = said[:min(len(said), mostSaid)]
	if len(said) > 0 || t.told[at] {
		problems[at] = said
	}
	if t.told[at] = len(said) > 0; !t.told[at] {
		delete(t.told, at)
	}
}

// beyond says what is left out for there is too much of it.
func (t *tree) beyond() (out []mesh.Problem) {
	for _, path := range slices.Sorted(maps.Keys(t.hidden)) {
		if n := t.nodes[path]; n != nil && len(out) < problemsOfNode {
			out = append(out, mesh.Problem{
				Object: t.ref(n), Field: path, Code: code.TooMuch, Severity: mesh.Error,
				Message: fmt.Sprintf("%s: %d of its children are left out: the registry has more than it is read of",
					printable.Text(path, printable.Short), t.hidden[path]),
				Fix: "give the registry a higher maxServices or maxInstances",
			})
		}
	}
	return out
}

func (t *tree) saidOf(nodes ...*node) (out []mesh.Problem) {
	for _, n := range nodes {
		if n == nil {
			continue
		}
		out = append(out, n.bad...)
		if n.problem != nil {
			out = append(out, *n.problem)
		}
	}
	return out
}

// interfaceRows makes those of an interface: of its providers, and of instances of its applications that are no providers.
// ok is false where not enough has been read yet: what it had stays.
func (t *tree) interfaceRows(name string) (at string, shards []source.Shard, said []mesh.Problem, ok bool) {
	at = t.o.Chroot + t.o.InterfaceRoot + "/" + name
	from, rules := t.nodes[at+"/providers"], t.nodes[at+"/configurators"]
	by := t.nodes[t.o.Chroot+t.o.InterfaceRoot+"/mapping/"+name]
	said = t.saidOf(from, rules, by)
	if from != nil && from.session == 0 || rules != nil && rules.session == 0 || by != nil && by.session == 0 {
		return at, nil, said, false
	}
	var all []place
	taken := map[string]bool{}
	if from != nil {
		for _, kept := range from.places {
			p := kept.place()
			if rules != nil {
				p = change(p, rules.rules)
			}
			all = append(all, p)
			taken[spot(p)] = true
		}
	}
	if by != nil {
		for _, app := range by.apps {
			more, ready := t.mapped(name, app)
			if !ready {
				return at, nil, said, false
			}
			for _, p := range more {
				if !taken[spot(p)] {
					if rules != nil {
						p = change(p, rules.rules)
					}
					all = append(all, p)
				}
			}
		}
	}
	shards, more := t.to.offered(name, all)
	return at, shards, append(said, more...), true
}

func spot(p place) string { return fmt.Sprintf("%s:%d", p.Address, p.Port) }

// mapped are the places of an application that serve an interface.
func (t *tree) mapped(name, app string) (out []place, ready bool) {
	list := t.nodes[t.o.Chroot+t.o.ApplicationRoot+"/"+app]
	if list == nil {
		return nil, true
	}
	if list.session == 0 && list.problem == nil {
		return nil, false
	}
	for child := range list.has {
		m := t.nodes[list.path+"/"+child]
		if m == nil {
			continue
		}
		if m.session == 0 && m.problem == nil {
			return nil, false
		}
		var known *node
		if m.said.remote {
			known = t.nodes[t.metadataPath(app, m.said.revision)]
		}
		if known != nil && known.session == 0 && known.problem == nil {
			return nil, false
		}
		for _, p := range m.said.places {
			if known == nil || known.session == 0 || len(known.offers) == 0 {
				if p.Scheme == "dubbo" || p.Scheme == "tri" {
					out = append(out, p)
				}
				continue
			}
			for _, o := range known.offers {
				if o.Name == name && (o.Protocol == p.Scheme || o.Protocol == "") {
					one := p
					one.Group, one.Version = shared(o.Group), shared(o.Version)
					out = append(out, one)
				}
			}
		}
	}
	return out, true
}

// applicationRows makes those of an application.
func (t *tree) applicationRows(name string) (at string, shards []source.Shard, said []mesh.Problem, ok bool) {
	at = t.o.Chroot + t.o.ApplicationRoot + "/" + name
	list := t.nodes[at]
	if list == nil {
		return at, nil, nil, true
	}
	said = t.saidOf(list)
	if list.session == 0 {
		return at, nil, said, false
	}
	var all []place
	used := map[string]bool{}
	for child := range list.has {
		m := t.nodes[at+"/"+child]
		if m == nil {
			continue
		}
		said = append(said, t.saidOf(m)...)
		if m.session == 0 && m.problem == nil {
			return at, nil, said, false
		}
		all = append(all, m.said.places...)
		used[m.said.revision] = true
	}
	for revision := range list.revised {
		if !used[revision] {
			delete(list.revised, revision)
			t.drop(t.metadataPath(name, revision))
		}
	}
	if len(all) == 0 {
		return at, nil, said, true
	}
	slices.SortFunc(said, func(a, b mesh.Problem) int { return cmp.Compare(a.Field, b.Field) })
	shard, more := t.to.application(name, all)
	return at, []source.Shard{shard}, append(said, more...), true
}

// services is how many there are.
func (t *tree) services() (n int) {
	for _, parts := range t.sent {
		n += len(parts)
	}
	return n
}
