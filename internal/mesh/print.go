package mesh

import (
	"fmt"
	"strconv"
	"strings"
)

func (k ServiceKey) String() string {
	return string(k.Host) + " " + k.Namespace + "/" + k.Object + " " + k.Registry
}

func (k EndpointKey) String() string { return k.Service.String() + " " + k.ID }

// String returns name:number→target/protocol, without parts that are defaults.
func (p Port) String() string {
	s := p.Name + ":" + strconv.FormatUint(uint64(p.Number), 10)
	if p.Target != 0 && p.Target != p.Number {
		s += "→" + strconv.FormatUint(uint64(p.Target), 10)
	}
	return s + "/" + p.Protocol.String()
}

// String describes a service on one line, without its key.
func (s *Service) String() string {
	if s == nil {
		return "none"
	}
	ports := make([]string, len(s.Ports))
	for i, p := range s.Ports {
		ports[i] = p.String()
	}
	out := s.Resolution.String() + " " + strings.Join(ports, ",")
	if s.External {
		out += " external"
	}
	out += list(" addresses=", s.Addresses) + list(" exportTo=", s.ExportTo) + list(" identities=", s.Identities) +
		list(" accounts=", s.Accounts) + list(" outside=", s.Outside)
	out += list(" nearest=", s.Nearest)
	if s.Selects != "" {
		out += " selects=" + string(s.Selects)
	}
	if s.TargetNames != "" {
		out += " target names=" + string(s.TargetNames)
	}
	if s.OwnMachine {
		out += " own machine"
	}
	if s.Network != "" {
		out += " into=" + s.Network
	}
	if s.NetworkPort != 0 {
		out += ":" + strconv.FormatUint(uint64(s.NetworkPort), 10)
	}
	if n := s.Nodes; n != nil {
		out += fmt.Sprintf(" nodes=(%s) node ports=%s serving=%t", n.Machines, n.Ports, n.Serving)
	}
	for _, c := range s.Clusters {
		out += list(" in "+c.Cluster+"=", c.Addresses)
	}
	if s.ClusterLocal {
		out += " cluster-local"
	}
	return out
}

func list(name string, values []string) string {
	if len(values) == 0 {
		return ""
	}
	return name + strings.Join(values, ",")
}

// String describes an endpoint on one line, without fields that are not set.
func (e Endpoint) String() string {
	var b strings.Builder
	b.WriteString(e.Address)
	for _, f := range []struct{ name, value string }{
		{"also", e.Also.String()},
		{"ports", string(e.Ports)}, {"labels", string(e.Labels)}, {"locality", e.Locality.String()}, {"network", e.Network},
		{"hostname", e.Hostname}, {"machine", e.Machine.String()}, {"identity", e.Identity},
	} {
		if f.value != "" {
			b.WriteString(" " + f.name + "=" + f.value)
		}
	}
	if e.Weight != 0 {
		fmt.Fprintf(&b, " weight=%d", e.Weight)
	}
	if e.Health != Healthy {
		b.WriteString(" " + e.Health.String())
	}
	return b.String()
}
