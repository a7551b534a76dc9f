package consul

import (
	"cmp"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/source/platform"
)

// Statuses of checks, and the names that checks have which are there because somebody wants quiet (maintenance mode).
const (
	warning            = "warning"
	critical           = "critical"
	nodeMaintenance    = "_node_maintenance"
	serviceMaintenance = "_service_maintenance:"
)

// Keys of metadata that are understood: of a service, and those of its location also of its node.
const (
	metaRegion   = "region"
	metaZone     = "zone"
	metaSubZone  = "subzone"
	metaNetwork  = "network"
	metaIdentity = "identity"      // of what serves: a service account or a SPIFFE id
	metaExternal = "external-node" // of a node that no agent runs on
)

// translated makes a service of what Consul answers of it. protocol is that of its service-defaults, or empty. The result
// does not depend on the entries' order. ok is false if nothing but proxies and gateways has the name.
func (o *Options) translated(name, protocol string, all []entry) (out *platform.Service, ok bool) {
	out = &platform.Service{
		Name: name, Namespace: o.ConsulNamespace, Protocol: protocol, Meta: map[string]string{},
		Vars: map[string]string{"datacenter": o.Datacenter},
	}
	kept := make([]*entry, 0, len(all))
	for i := range all {
		if all[i].Service.Kind == "" {
			kept = append(kept, &all[i])
		}
	}
	if len(kept) == 0 {
		return out, len(all) == 0
	}
	slices.SortFunc(kept, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Node.Node, b.Node.Node), cmp.Compare(a.Service.ID, b.Service.ID))
	})
	out.External = true
	for _, e := range kept {
		out.Instances = append(out.Instances, o.instance(e))
		out.External = out.External && e.Node.Meta[metaExternal] == "true"
		out.Vars["datacenter"] = cmp.Or(o.Datacenter, e.Node.Datacenter)
		for _, key := range []string{platform.MetaPort, platform.MetaExportTo} {
			if v := e.Service.Meta[key]; v != "" && out.Meta[key] == "" {
				out.Meta[key] = v
			}
		}
	}
	return out, true
}

func (o *Options) instance(e *entry) platform.Instance {
	of := func(key string) string { return cmp.Or(e.Service.Meta[key], e.Node.Meta[key]) }
	var native locality
	for _, l := range []*locality{e.Node.Locality, e.Service.Locality} {
		if l != nil && l.Region != "" {
			native = *l
		}
	}
	addresses, port := o.addresses(e)
	out := platform.Instance{
		ID: e.Node.Node + "/" + e.Service.ID, Addresses: addresses, Labels: labels(e), Network: of(metaNetwork),
		Locality: mesh.Locality{
			Region:  cmp.Or(of(metaRegion), native.Region, e.Node.Datacenter),
			Zone:    cmp.Or(of(metaZone), native.Zone),
			SubZone: of(metaSubZone),
		},
		Identity: e.Service.Meta[metaIdentity], Unreadable: e.unreadable,
	}
	protocol := e.Service.Meta[platform.MetaProtocol]
	for _, p := range e.Service.Ports {
		out.Ports = append(out.Ports, platform.Port{Name: p.Name, Number: number(p.Port), Protocol: protocol})
	}
	if len(out.Ports) == 0 {
		out.Ports = []platform.Port{{Number: number(port), Protocol: protocol}}
	}
	out.Health, out.Weight = healthOf(e)
	return out
}

// number returns the number of a port; 0 if it is not a port number.
func number(port int) uint32 {
	if port < 0 || port > 65535 {
		return 0
	}
	return uint32(port)
}

// addresses returns the addresses of an instance, and its port there.
func (o *Options) addresses(e *entry) ([]string, int) {
	tagged := e.Service.TaggedAddresses
	if t, has := tagged[o.TaggedAddress]; has && o.TaggedAddress != "" && t.Address != "" {
		return []string{t.Address}, cmp.Or(t.Port, e.Service.Port)
	}
	out := []string{cmp.Or(e.Service.Address, e.Node.Address)}
	for _, family := range []string{"lan_ipv4", "lan_ipv6"} {
		// the other family's is a second address only where it leads to the same port
		if t := tagged[family]; t.Address != "" && cmp.Or(t.Port, e.Service.Port) == e.Service.Port && !slices.Contains(out, t.Address) &&
			strings.Contains(t.Address, ":") != strings.Contains(out[0], ":") {
			out = append(out, t.Address)
		}
	}
	return out, e.Service.Port
}

// labels returns an instance's metadata and its tags: "k=v" and "k|v" as a label k, any other as tag/<tag>. Metadata
// takes precedence.
func labels(e *entry) map[string]string {
	out := make(map[string]string, len(e.Service.Meta)+len(e.Service.Tags))
	for _, tag := range e.Service.Tags {
		k, v := labelOf(tag)
		out[k] = v
	}
	for k, v := range e.Service.Meta {
		out[k] = v
	}
	return out
}

// labelOf returns the label of a tag.
func labelOf(tag string) (key, value string) {
	if at := strings.IndexAny(tag, "=|"); at > 0 {
		return tag[:at], tag[at+1:]
	}
	return "tag/" + tag, "true"
}

// healthOf returns the health of an instance: the worst of its checks and those of its node. An instance with a warning
// stays, with the weight that it has then; if that weight is 0, it gets nothing new.
func healthOf(e *entry) (mesh.Health, uint32) {
	warned, failed, quiet := false, false, false
	for _, c := range e.Checks {
		switch {
		case c.quiet():
			quiet = true
		case c.Status == critical:
			failed = true
		case c.Status == warning:
			warned = true
		}
	}
	weight := uint32(1)
	if w := e.Service.Weights; w != nil {
		share := w.Passing
		if warned {
			share = w.Warning
		}
		weight = uint32(min(max(share, 0), 65535)) //nolint:gosec // bounded here
	}
	switch {
	case failed:
		return mesh.Unready, weight
	case quiet || weight == 0:
		return mesh.Draining, weight
	}
	return mesh.Healthy, weight
}
