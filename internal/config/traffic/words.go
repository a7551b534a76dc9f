package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/mesh/regex"
)

// checkHost checks a service's name: fully qualified, short, or with a wildcard as its first label.
func checkHost(c *rule.Check, at report.Path, host string) {
	switch {
	case host == "":
		c.Fail(at, code.NoHost, "the host is empty", "name a service: reviews.default.svc.cluster.local")
	case host == "*" || isDNSName(strings.TrimPrefix(host, "*.")):
	case strings.HasPrefix(host, "*") && isDNSName("x"+host[1:]):
	default:
		c.Fail(at, code.BadHost, strconv.Quote(host)+" is not a host name",
			"write labels of letters, digits and '-', joined by dots; a wildcard only as the first: *.example.com")
	}
}

// checkFullHost checks a host that servers and listeners select services by: it must not be a short name, and a wildcard must be a whole
// label (gateway.proto, Server.hosts; sidecar.proto, IstioEgressListener.hosts).
func checkFullHost(c *rule.Check, at report.Path, host string) {
	switch {
	case strings.HasPrefix(host, "*") && host != "*" && !strings.HasPrefix(host, "*."):
		c.Fail(at, code.BadHost, strconv.Quote(host)+" has a part of a label as its wildcard", "write *.example.com")
	case isDNSName(host) && !strings.Contains(host, "."):
		c.Fail(at, code.BadHost, strconv.Quote(host)+" is a short name", "write the whole name: reviews.default.svc.cluster.local")
	default:
		checkHost(c, at, host)
	}
}

// isDNSName allows the names that a certificate or a Host header may have: letters of both cases, underscores inside labels.
func isDNSName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 255 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isDNSLabel(label) {
			return false
		}
	}
	return true
}

func isDNSLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

func checkRegex(c *rule.Check, at report.Path, expr string) {
	if err := regex.Check(expr); err != nil {
		c.Fail(at, code.BadRegex,
			"the regular expression does not compile: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "),
			"write it in RE2 syntax")
	}
}

// checkLabels checks label names and values.
func checkLabels(c *rule.Check, at *report.Path, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
			c.Fail(at.Key(k), code.BadLabel, strconv.Quote(k)+" is not a label's name", "")
		}
		if msgs := validation.IsValidLabelValue(labels[k]); len(msgs) > 0 {
			c.Fail(at.Key(k), code.BadLabel, strconv.Quote(labels[k])+" is not a label's value", "")
		}
	}
}

// GatewayName resolves a gateway's name as a rule of a namespace writes it (VirtualService.gateways): "namespace/name", "./name" or "name",
// or one of the old forms "name.namespace" and "name.namespace.svc.cluster.local". "mesh" is not a gateway's name.
func GatewayName(namespace, written string) (home, name string) {
	home, name, qualified := strings.Cut(written, "/")
	switch {
	case qualified && home == ".":
		return namespace, name
	case qualified:
		return home, name
	}
	name, rest, old := strings.Cut(written, ".")
	if !old {
		return namespace, written
	}
	home, _, _ = strings.Cut(rest, ".")
	return home, name
}

// checkGatewayNames checks a list of gateways: see GatewayName.
func checkGatewayNames(c *rule.Check, at *report.Path, names []string) {
	for i, g := range names {
		ns, name, qualified := strings.Cut(g, "/")
		if !qualified {
			ns, name = ".", g
		}
		if ns != "." && len(validation.IsDNS1123Label(ns)) > 0 || !isDNSName(name) {
			c.Fail(at.At(i), code.BadGateway, strconv.Quote(g)+" is not a gateway's name", "write mesh, <name> or <namespace>/<name>")
			continue
		}
		if !qualified && strings.Contains(g, ".") {
			home, short := GatewayName("", g)
			c.Warn(at.At(i), code.Deprecated, fmt.Sprintf("%q is an old form of %q", g, home+"/"+short), "write "+home+"/"+short)
		}
	}
}

// checkProtocol checks a port's protocol by the names Istio's API has for them.
func checkProtocol(c *rule.Check, at report.Path, s string) {
	if _, ok := mesh.ParseProtocol(s); !ok && !strings.EqualFold(s, "HTTP_PROXY") && !strings.EqualFold(s, "HBONE") {
		c.Fail(at, code.UnknownProtocol, strconv.Quote(s)+" is not a protocol",
			"write one of HTTP, HTTPS, HTTP2, GRPC, GRPC-Web, TLS, TCP, UDP, MONGO, MYSQL, REDIS, DUBBO")
	}
}

// checkNsHost checks "namespace/host" as Gateway servers and Sidecar egress listeners write it.
func checkNsHost(c *rule.Check, at report.Path, s string, specials ...string) {
	ns, host, ok := strings.Cut(s, "/")
	if !ok {
		return
	}
	if !rule.OneOf(ns, specials...) && len(validation.IsDNS1123Label(ns)) > 0 {
		c.Fail(at, code.BadHost, strconv.Quote(ns)+" is not a namespace", `write a namespace's name, "." or "*" before the slash`)
	}
	if strings.Contains(host, "/") || host == "" {
		c.Fail(at, code.BadHost, strconv.Quote(s)+" is not <namespace>/<host>", "")
	}
}
