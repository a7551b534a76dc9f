package traffic

import (
	"fmt"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Sidecar holds the rules of https://istio.io/latest/docs/reference/config/networking/sidecar/ that the schema cannot say.
func Sidecar(c *rule.Check, s *networking.Sidecar) {
	at := report.Spec()
	selector := at.Key("workloadSelector")
	c.Selector(&selector, "labels", s.WorkloadSelector.GetLabels())
	if len(s.Egress)+len(s.Ingress) == 0 && s.OutboundTrafficPolicy == nil && s.InboundConnectionPool == nil {
		c.Fail(*at, code.Missing, "the Sidecar is empty", "add egress, ingress, outboundTrafficPolicy or inboundConnectionPool")
	}
	checkIngress(c, at, s)
	checkEgress(c, at, s.Egress)
	pool := at.Key("inboundConnectionPool")
	checkConnectionPool(c, &pool, s.InboundConnectionPool)
	if p := s.OutboundTrafficPolicy.GetEgressProxy(); p != nil {
		policy := at.Key("outboundTrafficPolicy")
		checkDestination(c, policy.Key("egressProxy"), p)
		if p.Port == nil {
			proxy := policy.Key("egressProxy")
			c.Fail(proxy.Key("port"), code.Missing, "the egressProxy has no port", "set port.number")
		}
		if s.OutboundTrafficPolicy.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
			c.Fail(policy.Key("egressProxy"), code.Conflict, "an egressProxy goes with mode ALLOW_ANY", "")
		}
	}
}

func checkIngress(c *rule.Check, at *report.Path, s *networking.Sidecar) {
	seen, sockets := map[uint32]bool{}, map[string]bool{}
	for i, l := range s.Ingress {
		here := at.Of("ingress", i)
		port := here.Key("port")
		if l.Port == nil {
			c.Fail(port, code.Missing, "the listener has no port", "")
			continue
		}
		c.Port(port.Key("number"), l.Port.Number)
		checkSidecarPort(c, &port, l.Port, seen)
		checkBind(c, here.Key("bind"), l.Bind)
		if isSocket(l.Bind) {
			if sockets[l.Bind] {
				c.Fail(here.Key("bind"), code.Duplicate,
					strconv.Quote(l.Bind)+" has a listener already, and a socket has one whatever its port", "merge the two")
			}
			sockets[l.Bind] = true
		}
		checkDefaultEndpoint(c, here.Key("defaultEndpoint"), l.DefaultEndpoint)
		pool := here.Key("connectionPool")
		checkConnectionPool(c, &pool, l.ConnectionPool)
		if l.Tls != nil {
			tls := here.Key("tls")
			checkIngressTLS(c, &tls, l)
		}
	}
}

// checkIngressTLS: a sidecar terminates TLS of clients outside the mesh with its own files, mode SIMPLE or MUTUAL (sidecar.proto,
// IstioIngressListener.tls).
func checkIngressTLS(c *rule.Check, at *report.Path, l *networking.IstioIngressListener) {
	t := l.Tls
	if p, known := mesh.ParseProtocol(l.Port.GetProtocol()); known && !p.IsTLS() {
		c.Fail(*at, code.Conflict, "protocol "+l.Port.GetProtocol()+" has no tls", "write protocol TLS or HTTPS")
	}
	switch t.Mode {
	case networking.ServerTLSSettings_ISTIO_MUTUAL, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		c.Fail(
			at.Key("mode"), code.NotSupported, t.Mode.String()+" is not for a Sidecar's ingress", "write SIMPLE or MUTUAL",
		)
		return
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"credentialName", t.CredentialName != ""},
		{"credentialNames", len(t.CredentialNames) > 0},
		{"subjectAltNames", len(t.SubjectAltNames) > 0},
		{"httpsRedirect", t.HttpsRedirect},
	} {
		if f.set {
			c.Fail(at.Key(f.name), code.NotSupported, f.name+" is not for a Sidecar's ingress", "leave it out; certificates are files")
		}
	}
	checkServerTLS(c, at, t)
}

// checkDefaultEndpoint checks the forms that sidecar.proto allows for defaultEndpoint: 127.0.0.1:port, [::1]:port, 0.0.0.0:port, [::]:port
// or a unix socket.
func checkDefaultEndpoint(c *rule.Check, at report.Path, s string) {
	if isSocket(s) {
		checkBind(c, at, s)
		return
	}
	if s == "" {
		return
	}
	for _, host := range []string{"127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:"} {
		rest, ok := strings.CutPrefix(s, host)
		var n uint32
		if _, err := fmt.Sscanf(rest, "%d", &n); ok && err == nil && n > 0 && n < 65536 && fmt.Sprint(n) == rest {
			return
		}
	}
	c.Fail(at, code.BadAddress, strconv.Quote(s)+" is not an endpoint of the workload's own",
		"write 127.0.0.1:port, 0.0.0.0:port or unix:///path")
}

func checkSidecarPort(c *rule.Check, at *report.Path, p *networking.SidecarPort, seen map[uint32]bool) {
	if p.Protocol != "" {
		checkProtocol(c, at.Key("protocol"), p.Protocol)
	}
	if seen[p.Number] {
		c.Fail(at.Key("number"), code.Duplicate, fmt.Sprintf("port %d has a listener already", p.Number), "merge the two")
	}
	seen[p.Number] = true
}

func checkEgress(c *rule.Check, at *report.Path, list []*networking.IstioEgressListener) {
	seen, catchAll := map[string]bool{}, false
	for i, l := range list {
		here := at.Of("egress", i)
		switch {
		case l.Port == nil && l.Bind != "":
			c.Fail(here.Key("bind"), code.Conflict, "a listener with a bind needs a port", "")
		case l.Port == nil && catchAll:
			c.Fail(here, code.Duplicate, "there is a listener without a port already", "merge the two")
		case l.Port == nil:
			catchAll = true
			if i != len(list)-1 {
				c.Fail(here, code.Conflict, "the listener without a port must be the last", "put it last")
			}
		default:
			checkEgressPort(c, &here, l, seen)
		}
		if len(l.Hosts) == 0 {
			c.Fail(here.Key("hosts"), code.Missing, "the listener has no hosts", `write <namespace>/<host>, or "*/*"`)
		}
		for j, h := range l.Hosts {
			checkEgressHost(c, here.Of("hosts", j), h)
		}
	}
}

// checkEgressPort checks a listener that has a port, or a unix socket, of its own (sidecar.proto,
// IstioEgressListener.port, bind and capture_mode).
func checkEgressPort(c *rule.Check, at *report.Path, l *networking.IstioEgressListener, seen map[string]bool) {
	port := at.Key("port")
	checkBind(c, at.Key("bind"), l.Bind)
	checkBoundPort(c, port.Key("number"), l.Bind, l.Port.Number)
	checkSidecarPort(c, &port, l.Port, map[uint32]bool{})
	id, name := fmt.Sprintf("%s:%d", l.Bind, l.Port.Number), fmt.Sprintf("port %d", l.Port.Number)
	if isSocket(l.Bind) {
		id, name = l.Bind, strconv.Quote(l.Bind)
		if l.CaptureMode == networking.CaptureMode_IPTABLES {
			c.Fail(at.Key("captureMode"), code.Conflict, "nothing that is intercepted comes to a unix socket",
				"write captureMode DEFAULT or NONE")
		}
	}
	if seen[id] {
		c.Fail(port.Key("number"), code.Duplicate, name+" has a listener already", "merge the two")
	}
	seen[id] = true
}

// checkEgressHost checks <namespace>/<host>, where the namespace may be "*" or "."; "~" before it excludes these hosts, and "~" alone means
// "~*" (sidecar.proto, IstioEgressListener.hosts).
func checkEgressHost(c *rule.Check, at report.Path, h string) {
	ns, host, ok := strings.Cut(h, "/")
	if !ok {
		c.Fail(at, code.BadHost, strconv.Quote(h)+" has no namespace", `write <namespace>/<host>; "*/`+h+`" for every namespace`)
		return
	}
	if excluded, ok := strings.CutPrefix(ns, "~"); ok && excluded == "" {
		ns = "*"
	} else {
		ns = excluded
	}
	checkNsHost(c, at, ns+"/"+host, "*", ".")
	checkFullHost(c, at, host)
}
