package zookeeper

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// answer is what reading a node gave.
type answer struct {
	path  string
	begun time.Time
	names []string
	text  []byte
	err   error
}

// Memory that is charged for a node, and for a name or a place of it beside its texts, in bytes, about.
const (
	nodeBytes  = 500
	nameBytes  = 300
	placeBytes = 1650
)

// cost returns the charge for the content of a node: a text that becomes places is charged like places.
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

// merge sets the children of a node to those that were found. A child that another session saw, and this one does not, is kept
// for a while.
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
			n.has[child] = t.hold(now)
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
			n.wrong(t, name, errors.New("it is not a name"))
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
	order  []string         // ids, in the order of their arrival
	bad    []badName        // the first ones that cannot be read
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

// bytes returns the charge for a place.
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
			old.until = t.hold(now).UnixNano()
			next = append(next, old)
		}
	}
	t.places += len(next) - len(n.places)
	n.places = slices.Clip(next)
}

func (t *tree) takeMember(n *node, text []byte) {
	if n.instance = (instance{}); text == nil { // it went before it was read
		return
	}
	said, err := parseInstance(text, t.o.Labels)
	if err != nil {
		n.wrong(t, n.name, err)
		return
	}
	n.instance = said
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

// touch notes the interfaces and applications that depend on a node.
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
