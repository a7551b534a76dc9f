package platform

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// servicePorts are a service's ports, as its instances show them.
type servicePorts struct {
	protocol mesh.Protocol
	fixed    uint32 // that clients address if a port has no name; 0: the instance's own
	byName   map[string]*mesh.Port
	byNumber map[uint32]string // the name of the port that has it
	notes    *notes
}

func (t *Translator) ports(n *notes, s *Service) *servicePorts {
	p := &servicePorts{
		protocol: t.protocol, fixed: t.naming.Port, byName: map[string]*mesh.Port{}, byNumber: map[uint32]string{}, notes: n,
	}
	if text := s.Meta[MetaPort]; text != "" {
		if number, err := strconv.ParseUint(text, 10, 16); err == nil && number > 0 {
			p.fixed = uint32(number)
		} else {
			n.add(MetaPort, code.BadPort, mesh.Error, quoted(text)+" is not a port; want a number from 1 to 65535")
		}
	}
	if s.Port > 0 && s.Port <= 65535 {
		p.fixed = s.Port
	}
	for _, text := range []string{s.Meta[MetaProtocol], s.Protocol} {
		p.protocol = n.protocol(text, p.protocol)
	}
	return p
}

func (n *notes) protocol(text string, otherwise mesh.Protocol) mesh.Protocol {
	if text == "" {
		return otherwise
	}
	p, ok := mesh.ParseProtocol(text)
	if !ok {
		n.addFix(MetaProtocol, code.UnknownProtocol, mesh.Warning, quoted(text)+" is not a protocol; the protocol is detected",
			"want http, http2, grpc, tcp, tls, https, mongo, redis or mysql")
	}
	return p
}

// serve finds, or adds, the service's port that a port of an instance serves.
func (p *servicePorts) serve(of Port) (name string, ok bool) {
	protocol := p.notes.protocol(of.Protocol, p.protocol)
	number := of.Number
	name = of.Name
	switch {
	case name == "" && p.fixed != 0:
		number, name = p.fixed, portName(protocol)
	case name == "":
		name = portName(protocol) + "-" + strconv.FormatUint(uint64(number), 10)
	}
	if at := p.byName[name]; at != nil {
		if at.Number == number || of.Name == "" {
			return name, true
		}
		// instances serve a named port on different numbers: clients address the least that was seen, so that what they do does
		// not depend on the order of instances
		if taken, has := p.byNumber[number]; number < at.Number && (!has || taken == name) {
			delete(p.byNumber, at.Number)
			at.Number, p.byNumber[number] = number, name
		}
		return name, true
	}
	if taken, has := p.byNumber[number]; has {
		return taken, true
	}
	if len(p.byName) >= maxPorts {
		p.notes.addFix("instances", code.TooMuch, mesh.Error,
			fmt.Sprintf("its instances listen on more than %d ports; those on others are left out", maxPorts),
			"set the port that clients address: "+MetaPort+" of the service, or port of the registry")
		return "", false
	}
	p.byName[name] = &mesh.Port{Name: name, Number: number, Protocol: protocol}
	p.byNumber[number] = name
	return name, true
}

func portName(p mesh.Protocol) string {
	if p == mesh.Unknown {
		return "port"
	}
	return strings.ToLower(p.String())
}

func (p *servicePorts) list() []mesh.Port {
	out := make([]mesh.Port, 0, len(p.byName))
	for _, at := range p.byName {
		out = append(out, *at)
	}
	slices.SortFunc(out, func(a, b mesh.Port) int { return cmp.Compare(a.Number, b.Number) })
	return out
}
