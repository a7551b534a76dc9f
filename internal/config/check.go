package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/mesh"
)

// check is what a kind's rules say their problems to. A rule that Istio enforces is an Error; what Istio takes but
// cannot mean what it says is a Warning.
type check struct{ draft *draft }

func (c *check) fail(at path, code, message, fix string) {
	c.draft.fail(at.String(), code, message, fix)
}

func (c *check) warn(at path, code, message, fix string) {
	c.draft.say(at.String(), code, mesh.Warning, message, fix)
}

// spec is where a kind's rules start.
func (c *check) spec() *path { return &path{name: "spec"} }

// host checks a service's name: fully qualified, short, or with a wildcard as its first label.
func (c *check) host(at path, host string) {
	switch {
	case host == "":
		c.fail(at, "NoHost", "the host is empty", "name a service: reviews.default.svc.cluster.local")
	case host == "*" || isDNSName(strings.TrimPrefix(host, "*.")):
	case strings.HasPrefix(host, "*") && isDNSName("x"+host[1:]):
	default:
		c.fail(
			at,
			"BadHost",
			quote(host)+" is not a host name",
			"write labels of letters, digits and '-', joined by dots; a wildcard only as the first: *.example.com",
		)
	}
}

// isDNSName allows what a name in a certificate or a Host header may be: letters of both cases, underscores inside labels.
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

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// isCIDR takes an address or a prefix.
func isCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil || isIP(s)
}

// port checks a number that must be there.
func (c *check) port(at path, number uint32) {
	if number < 1 || number > 65535 {
		c.fail(at, "BadPort", fmt.Sprintf("%d is not a port", number), "write a number from 1 to 65535")
	}
}

func (c *check) regex(at path, expr string) {
	if _, err := regexp.Compile(expr); err != nil {
		c.fail(
			at,
			"BadRegex",
			"the regular expression does not compile: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "),
			"write it in RE2 syntax",
		)
	}
}

func (c *check) percent(at path, v float64) {
	if !(v >= 0 && v <= 100) {
		c.fail(at, "BadPercent", fmt.Sprintf("%v is not a percentage", v), "write a number from 0 to 100")
	}
}

// duration checks that a duration that is set is at least least.
func (c *check) duration(at path, d *durationpb.Duration, least time.Duration) {
	if d == nil {
		return
	}
	if d.CheckValid() != nil || d.AsDuration() < least {
		c.fail(at, "BadDuration", d.AsDuration().String()+" is too short", "write "+least.String()+" or more")
	}
}

// exportTo checks a list of namespaces that may see an object: names, "." and "*"; "~" for nobody.
func (c *check) exportTo(at *path, list []string) {
	seen := map[string]bool{}
	for i, ns := range list {
		here := at.at(i)
		switch {
		case ns == "*" || ns == "." || ns == "~":
			if ns != "." && len(list) > 1 {
				c.fail(here, "BadExportTo", quote(ns)+" must stand alone", "leave the others out")
			}
		case len(validation.IsDNS1123Label(ns)) > 0:
			c.fail(here, "BadExportTo", quote(ns)+" is not a namespace", `write a namespace's name, "." or "*"`)
		}
		if seen[ns] {
			c.fail(here, "Duplicate", quote(ns)+" is written twice", "keep one of the two")
		}
		seen[ns] = true
	}
}

// labels checks label names and values.
func (c *check) labels(at *path, labels map[string]string) {
	for _, k := range sortedKeys(labels) {
		if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
			c.fail(at.key(k), "BadLabel", quote(k)+" is not a label's name", "")
		}
		if msgs := validation.IsValidLabelValue(labels[k]); len(msgs) > 0 {
			c.fail(at.key(k), "BadLabel", quote(labels[k])+" is not a label's value", "")
		}
	}
}

// selector checks the labels of a workloadSelector: they may not be wildcards or empty names.
func (c *check) selector(at *path, labels map[string]string) {
	for _, k := range sortedKeys(labels) {
		switch {
		case k == "":
			c.fail(*at, "BadLabel", "a label without a name", "")
		case strings.Contains(k, "*") || strings.Contains(labels[k], "*"):
			c.fail(at.key(k), "BadLabel", "a selector has no wildcards", "write the label as the workloads have it")
		}
	}
}

// oneOf checks a word against a list that only proto comments hold.
func oneOf(s string, list ...string) bool {
	for _, l := range list {
		if strings.EqualFold(s, l) {
			return true
		}
	}
	return false
}

// gatewayNames checks a list of gateways: "mesh", a name, or namespace/name.
func (c *check) gatewayNames(at *path, names []string) {
	for i, g := range names {
		ns, name, qualified := strings.Cut(g, "/")
		if !qualified {
			ns, name = "", g
		}
		if qualified && (len(validation.IsDNS1123Label(ns)) > 0 || name == "") || !isDNSName(name) {
			c.fail(at.at(i), "BadGateway", quote(g)+" is not a gateway's name", "write mesh, <name> or <namespace>/<name>")
		}
	}
}

// protocol checks a port's protocol by the names Istio's API has for them.
func (c *check) protocol(at path, s string) {
	if _, ok := mesh.ParseProtocol(s); !ok && !strings.EqualFold(s, "HTTP_PROXY") && !strings.EqualFold(s, "HBONE") {
		c.fail(
			at,
			"UnknownProtocol",
			quote(s)+" is not a protocol",
			"write one of HTTP, HTTPS, HTTP2, GRPC, GRPC-Web, TLS, TCP, UDP, MONGO, MYSQL, REDIS",
		)
	}
}

// nsHost checks "namespace/host" as Gateway servers and Sidecar egress listeners write it.
func (c *check) nsHost(at path, s string, specials ...string) {
	ns, host, ok := strings.Cut(s, "/")
	if !ok {
		return
	}
	if !oneOf(ns, specials...) && len(validation.IsDNS1123Label(ns)) > 0 {
		c.fail(at, "BadHost", quote(ns)+" is not a namespace", `write a namespace's name, "." or "*" before the slash`)
	}
	if strings.Contains(host, "/") || host == "" {
		c.fail(at, "BadHost", quote(s)+" is not <namespace>/<host>", "")
	}
}
