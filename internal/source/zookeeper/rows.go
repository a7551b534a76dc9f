package zookeeper

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"fmt"
	"maps"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// applicationPart begins the parts of shards that are applications'. An interface's are "group/version", so that none is
// taken for the other.
const applicationPart = "application"

// translators make rows of the tree.
type translators struct {
	interfaces, applications *platform.Translator
	group, version           bool // hosts of interfaces have them
}

func newTranslators(name string, o Options) translators {
	host := cmp.Or(o.Host, interfaceHost)
	applications := o.Naming
	applications.Host = o.ApplicationHost
	return translators{
		platform.NewTranslator(name, o.Naming, interfaceHost), platform.NewTranslator(name, applications, applicationHost),
		strings.Contains(host, "{group}"), strings.Contains(host, "{version}"),
	}
}

// offered makes the services of an interface: one for each group and version.
func (t translators) offered(name string, all []place) ([]source.Shard, []mesh.Problem) {
	by := map[[2]string][]place{}
	for _, p := range all {
		k := [2]string{p.Group, p.Version}
		by[k] = append(by[k], p)
	}
	var shards []source.Shard
	var problems []mesh.Problem
	for _, k := range sortedKeys(by) {
		s := platform.Service{
			Name: name, Namespace: strings.TrimPrefix(identity(k[0], k[1]), "/"), Vars: map[string]string{"group": k[0], "version": k[1]},
			Instances: instances(by[k]),
		}
		shard, said := t.interfaces.Rows(&s)
		for _, row := range shard.Rows.Services {
			row.Dubbo = mesh.DubboName{Interface: name}
			if t.group {
				row.Dubbo.Group = k[0]
			}
			if t.version {
				row.Dubbo.Version = k[1]
			}
		}
		shards, problems = append(shards, shard), append(problems, said...)
	}
	return shards, problems
}

func sortedKeys(by map[[2]string][]place) [][2]string {
	out := make([][2]string, 0, len(by))
	for k := range by {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return out
}

// application makes an application's service.
func (t translators) application(name string, all []place) (source.Shard, []mesh.Problem) {
	return t.applications.Rows(&platform.Service{Name: name, Namespace: applicationPart, Instances: instances(all)})
}

// rank orders schemes. Ports of a service's first scheme have no name.
func rank(scheme string) int {
	switch scheme {
	case "dubbo":
		return 0
	case "tri":
		return 1
	}
	return 2
}

// instances makes one of each place. If several places have one address and port, because a server speaks several protocols
// there, the first scheme's counts. Those of other schemes are ports with the scheme as a name.
func instances(all []place) []platform.Instance {
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(rank(a.Scheme), rank(b.Scheme)), cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.Address, b.Address),
			cmp.Compare(a.Port, b.Port))
	})
	weighted := slices.ContainsFunc(all, func(p place) bool { return p.Weight != defaultWeight })
	taken := map[string]bool{}
	var out []platform.Instance
	for _, p := range all {
		at := net.JoinHostPort(p.Address, strconv.FormatUint(uint64(p.Port), 10))
		if taken[at] {
			continue
		}
		taken[at] = true
		in := platform.Instance{
			ID: cmp.Or(p.Scheme, "any") + "/" + at, Addresses: []string{p.Address}, Labels: p.Labels.Map(), Locality: p.Locality,
		}
		port := platform.Port{Number: p.Port, Protocol: protocolOf(p.Scheme)}
		if p.Scheme != all[0].Scheme {
			port.Name = p.Scheme
		}
		in.Ports = []platform.Port{port}
		if weighted {
			in.Weight = p.Weight
		}
		switch {
		case p.Off:
			in.Health = mesh.Unready
		case p.Weight == 0: // no client may choose it, but its connections stay
			in.Health, in.Weight = mesh.Draining, 1
		}
		out = append(out, in)
	}
	return out
}

// chunk is how many services are handed over at once.
const chunk = 500

// changes makes the changed shards, some at a time: none are left when shards and problems are empty.
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
			if ok {
				shards = append(shards, t.replaced(at, made)...)
			}
			problems[at] = said[:min(len(said), mostSaid)]
		}
	}
	top := t.o.Chroot + t.o.InterfaceRoot
	of := t.problemsOf(t.nodes[top], t.nodes[top+"/mapping"], t.nodes[t.o.Chroot+t.o.ApplicationRoot])
	said := append(t.beyond(), of...)
	problems[t.o.Chroot+"/"], problems[placeMissing] = said[:min(len(said), mostSaid)], nil
	if t.holding > 0 {
		problems[placeMissing] = []mesh.Problem{platform.MissingProblem(t.name, t.holding, "nodes", t.keep)}
	}
	return shards, problems
}

// replaced adds the shards that are gone.
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

// mostSaid is how many problems of one place are reported.
const mostSaid = 100

// placeMissing is the place of the problem that counts the missing nodes. Other places begin with a slash.
const placeMissing = "missing"

// beyond returns the problems of children that are left out because there are too many.
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

func (t *tree) problemsOf(nodes ...*node) (out []mesh.Problem) {
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

// interfaceRows makes the rows of an interface: of its providers, and of instances of its applications that are no
// providers. ok is false if not enough has been read yet: its earlier rows stay.
func (t *tree) interfaceRows(name string) (at string, shards []source.Shard, said []mesh.Problem, ok bool) {
	at = t.o.Chroot + t.o.InterfaceRoot + "/" + name
	from, rules := t.nodes[at+"/providers"], t.nodes[at+"/configurators"]
	by := t.nodes[t.o.Chroot+t.o.InterfaceRoot+"/mapping/"+name]
	said = t.problemsOf(from, rules, by)
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

// mapped returns the places of an application that serve an interface.
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
		if m.instance.remote {
			known = t.nodes[t.metadataPath(app, m.instance.revision)]
		}
		if known != nil && known.session == 0 && known.problem == nil {
			return nil, false
		}
		for _, p := range m.instance.places {
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
	said = t.problemsOf(list)
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
		said = append(said, t.problemsOf(m)...)
		if m.session == 0 && m.problem == nil {
			return at, nil, said, false
		}
		all = append(all, m.instance.places...)
		used[m.instance.revision] = true
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
