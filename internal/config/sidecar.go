package config

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// checkSidecar holds the rules of https://istio.io/latest/docs/reference/config/networking/sidecar/ that the schema cannot say.
func checkSidecar(c *check, s *networking.Sidecar) {
	at := c.spec()
	selector := at.key("workloadSelector")
	c.selector(&selector, s.WorkloadSelector.GetLabels())
	if len(s.Egress)+len(s.Ingress) == 0 && s.OutboundTrafficPolicy == nil && s.InboundConnectionPool == nil {
		c.fail(*at, "Missing", "the Sidecar says nothing", "add egress, ingress, outboundTrafficPolicy or inboundConnectionPool")
	}
	checkIngress(c, at, s)
	checkEgress(c, at, s.Egress)
	pool := at.key("inboundConnectionPool")
	checkConnectionPool(c, &pool, s.InboundConnectionPool)
	if p := s.OutboundTrafficPolicy.GetEgressProxy(); p != nil {
		policy := at.key("outboundTrafficPolicy")
		checkDestination(c, policy.key("egressProxy"), p)
		if s.OutboundTrafficPolicy.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
			c.fail(policy.key("egressProxy"), "Conflict", "an egressProxy goes with mode ALLOW_ANY", "")
		}
	}
}

func checkIngress(c *check, at *path, s *networking.Sidecar) {
	seen, sockets := map[uint32]bool{}, map[string]bool{}
	for i, l := range s.Ingress {
		here := at.of("ingress", i)
		port := here.key("port")
		if l.Port == nil {
			c.fail(port, "Missing", "the listener has no port", "")
			continue
		}
		c.port(port.key("number"), l.Port.Number)
		checkSidecarPort(c, &port, l.Port, seen)
		if l.Bind != "" && !isIP(l.Bind) && !isSocket(l.Bind) {
			c.fail(here.key("bind"), "BadAddress", quote(l.Bind)+" is not an address", "")
		}
		if isSocket(l.Bind) {
			if sockets[l.Bind] {
				c.fail(
					here.key("bind"),
					"Duplicate",
					quote(l.Bind)+" has a listener already, and a socket has one whatever its port",
					"merge the two",
				)
			}
			sockets[l.Bind] = true
		}
		checkDefaultEndpoint(c, here.key("defaultEndpoint"), l.DefaultEndpoint)
		pool := here.key("connectionPool")
		checkConnectionPool(c, &pool, l.ConnectionPool)
		if l.Tls != nil {
			tls := here.key("tls")
			checkServerTLS(c, &tls, l.Tls)
		}
	}
}

// checkDefaultEndpoint takes what sidecar.proto says of defaultEndpoint: 127.0.0.1:port, [::1]:port, 0.0.0.0:port,
// [::]:port or a unix socket.
func checkDefaultEndpoint(c *check, at path, s string) {
	if s == "" || isSocket(s) {
		return
	}
	for _, host := range []string{"127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:"} {
		rest, ok := strings.CutPrefix(s, host)
		var n uint32
		if _, err := fmt.Sscanf(rest, "%d", &n); ok && err == nil && n > 0 && n < 65536 && fmt.Sprint(n) == rest {
			return
		}
	}
	c.fail(at, "BadAddress", quote(s)+" is not an endpoint of the workload's own", "write 127.0.0.1:port, 0.0.0.0:port or unix:///path")
}

func checkSidecarPort(c *check, at *path, p *networking.SidecarPort, seen map[uint32]bool) {
	if p.Protocol != "" {
		c.protocol(at.key("protocol"), p.Protocol)
	}
	if seen[p.Number] {
		c.fail(at.key("number"), "Duplicate", fmt.Sprintf("port %d has a listener already", p.Number), "merge the two")
	}
	seen[p.Number] = true
}

func checkEgress(c *check, at *path, list []*networking.IstioEgressListener) {
	seen, catchAll := map[string]bool{}, false
	for i, l := range list {
		here := at.of("egress", i)
		switch {
		case l.Port == nil && l.Bind != "":
			c.fail(here.key("bind"), "Conflict", "a listener with a bind needs a port", "")
		case l.Port == nil && catchAll:
			c.fail(here, "Duplicate", "there is a listener without a port already", "merge the two")
		case l.Port == nil:
			catchAll = true
			if i != len(list)-1 {
				c.fail(here, "Conflict", "the listener without a port must be the last", "put it last")
			}
		default:
			checkEgressPort(c, &here, l, seen)
		}
		if len(l.Hosts) == 0 {
			c.fail(here.key("hosts"), "Missing", "the listener has no hosts", `write <namespace>/<host>, or "*/*"`)
		}
		for j, h := range l.Hosts {
			checkEgressHost(c, here.of("hosts", j), h)
		}
	}
}

// checkEgressPort checks a listener that has a port, or a unix socket, of its own (sidecar.proto,
// IstioEgressListener.port, bind and capture_mode).
func checkEgressPort(c *check, at *path, l *networking.IstioEgressListener, seen map[string]bool) {
	port := at.key("port")
	c.bind(at.key("bind"), l.Bind)
	c.boundPort(port.key("number"), l.Bind, l.Port.Number)
	checkSidecarPort(c, &port, l.Port, map[uint32]bool{})
	id, name := fmt.Sprintf("%s:%d", l.Bind, l.Port.Number), fmt.Sprintf("port %d", l.Port.Number)
	if isSocket(l.Bind) {
		id, name = l.Bind, quote(l.Bind)
		if l.CaptureMode == networking.CaptureMode_IPTABLES {
			c.fail(
				at.key("captureMode"),
				"Conflict",
				"nothing that is intercepted comes to a unix socket",
				"write captureMode DEFAULT or NONE",
			)
		}
	}
	if seen[id] {
		c.fail(port.key("number"), "Duplicate", name+" has a listener already", "merge the two")
	}
	seen[id] = true
}

// checkEgressHost takes <namespace>/<host>, where the namespace may be "*" or "."; "~" before it excludes what it
// names, and alone stands for "~*" (sidecar.proto, IstioEgressListener.hosts).
func checkEgressHost(c *check, at path, h string) {
	ns, host, ok := strings.Cut(h, "/")
	if !ok {
		c.fail(at, "BadHost", quote(h)+" has no namespace", `write <namespace>/<host>; "*/`+h+`" for every namespace`)
		return
	}
	if excluded, ok := strings.CutPrefix(ns, "~"); ok && excluded == "" {
		ns = "*"
	} else {
		ns = excluded
	}
	c.nsHost(at, ns+"/"+host, "*", ".")
	c.host(at, host)
}
