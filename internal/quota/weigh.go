package quota

import (
	"fmt"
	"math"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// weight is the size that an object produces: fixed, and for each port of the mesh's services.
type weight struct {
	fixed, each size
	joined      float64
	why         string // the numbers that multiply: "256 hosts × 256 ports"
}

// in returns the size of a weight in a mesh of so many ports.
func (w weight) in(ports float64) size {
	return size{w.fixed.resources + w.each.resources*ports, w.fixed.bytes + w.each.bytes*ports}
}

// scale is the size of the mesh for a namespace: weights multiply with ports, and its budgets grow with allowed. A namespace's own
// ServiceEntries hardly make its budgets grow.
type scale struct{ ports, allowed float64 }

// over returns the number by which a weight is over an object's budget, in words; empty: it is within.
func (w weight) over(l limits, mesh scale) string {
	s, resources, bytes := w.in(mesh.ports), l.object.resources, l.object.bytes
	if w.each != (size{}) {
		resources, bytes = max(resources, perPort*mesh.allowed), max(bytes, bytesPerPort*mesh.allowed)
	}
	switch {
	case w.joined > l.joined:
		return fmt.Sprintf("its delegates give it %.0f routes, and a VirtualService may get %.0f", w.joined, l.joined)
	case s.resources > resources:
		return fmt.Sprintf("it would make about %.0f resources (%s), and an object may make %.0f", s.resources, w.why, resources)
	case s.bytes > bytes:
		return fmt.Sprintf("it would make about %s (%s), and an object may make %s", mib(s.bytes), w.why, mib(bytes))
	}
	return ""
}

func mib(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }

// scaled reports whether a weight may pass an object's budget by the growth of the mesh alone.
func (w weight) scaled() bool { return w.each.resources > perPort || w.each.bytes > bytesPerPort }

// surroundings holds everything else that an object's weight depends on.
type surroundings struct {
	domain    string
	hosts     map[mesh.Host]hostSize    // registries' services, and ServiceEntries' hosts with many ports or endpoints
	listed    map[mesh.Host]float64     // endpoints of registries' slices
	delegates map[config.Key]*httpSize  // VirtualServices without hosts
	gateways  map[config.Key]float64    // servers and listeners of Gateways and ListenerSets that have many
	widest    map[string]map[uint16]int // by namespace: how many services have so many ports; only services with many
}

// hostSize is the size of a host's services.
type hostSize struct{ ports, endpoints float64 }

const (
	usualPorts     = 16 // of the services of a namespace
	usualHostPorts = 4  // of a host with no recorded size
	usualServers   = 8
	usualEndpoints = 64
)

// of returns the size of a host.
func (s *surroundings) of(host mesh.Host) hostSize {
	h, known := s.hosts[host]
	if !known {
		h = hostSize{ports: usualHostPorts}
	}
	h.endpoints += inSteps(s.listed[host])
	return h
}

// inSteps rounds a number up by at most a quarter, so that dependent objects are seldom weighed again. Small numbers become 0.
func inSteps(n float64) float64 {
	if n <= usualEndpoints {
		return 0
	}
	step := float64(usualEndpoints / 4)
	for n > 8*step {
		step *= 2
	}
	return math.Ceil(n/step) * step
}

// portsIn returns how many ports the widest service of a namespace has, as an estimate of the inbound ports of a workload. namespace "" is
// the whole mesh.
func (s *surroundings) portsIn(namespace string) float64 {
	out := float64(usualPorts)
	for ports := range s.widest[namespace] {
		out = max(out, float64(ports))
	}
	return out
}
