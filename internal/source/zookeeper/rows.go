package zookeeper

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// applicationPart begins the parts of shards that are applications'. An interface's are "group/version", so that none is
// taken for the other.
const applicationPart = "application"

// translators make rows of what was read.
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

// rank orders schemes by which is a service's first: its ports are called by no name of their own.
func rank(scheme string) int {
	switch scheme {
	case "dubbo":
		return 0
	case "tri":
		return 1
	}
	return 2
}

// instances makes one of each place. Of several at one address and port, which a server has that speaks more protocols than
// one there, the first scheme's counts. Those of other schemes are ports with the scheme for a name.
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
		case p.Weight == 0: // nobody is to choose it, which connections that it has do not mind
			in.Health, in.Weight = mesh.Draining, 1
		}
		out = append(out, in)
	}
	return out
}
