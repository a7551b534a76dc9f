package native

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
)

// field is the path of a field.
type field string

func (f field) of(name string) field { return f + "." + field(name) }

// at is an element of a list.
func (f field) at(name string, i int) field { return f.of(name) + field("["+strconv.Itoa(i)+"]") }

// Ingress checks an Ingress (IngressSpec of networking.k8s.io/v1).
func Ingress(spec *networkingv1.IngressSpec, r *report.Report) {
	const at = field("spec")
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		r.Fail(string(at), code.Missing, "the Ingress has neither rules nor a default backend", "set one of the two")
	}
	if spec.DefaultBackend != nil {
		checkBackend(r, at.of("defaultBackend"), spec.DefaultBackend)
	}
	for i, t := range spec.TLS {
		for j, h := range t.Hosts {
			checkHost(r, at.at("tls", i).at("hosts", j), h)
		}
		if t.SecretName != "" && len(validation.IsDNS1123Subdomain(t.SecretName)) > 0 {
			r.Fail(string(at.at("tls", i).of("secretName")), code.BadName, strconv.Quote(t.SecretName)+" is not the name of a Secret", "")
		}
	}
	for i, rule := range spec.Rules {
		if rule.Host != "" {
			checkHost(r, at.at("rules", i).of("host"), rule.Host)
		}
		if rule.HTTP == nil {
			continue
		}
		paths := at.at("rules", i).of("http")
		if len(rule.HTTP.Paths) == 0 {
			r.Fail(string(paths.of("paths")), code.Missing, "the rule has no path", `write one of pathType Prefix and path "/" for all requests`)
		}
		for j := range rule.HTTP.Paths {
			checkPath(r, paths.at("paths", j), &rule.HTTP.Paths[j])
		}
	}
}

// checkHost takes a name, or one below a star (IngressRule.host).
func checkHost(r *report.Report, at field, host string) {
	if _, err := netip.ParseAddr(host); err == nil {
		r.Fail(string(at), code.BadHost, strconv.Quote(host)+" is an IP address", "write a name; leave the host out for requests to any")
		return
	}
	msgs := validation.IsDNS1123Subdomain(host)
	if strings.Contains(host, "*") {
		msgs = validation.IsWildcardDNS1123Subdomain(host)
	}
	if len(msgs) > 0 {
		r.Fail(string(at), code.BadHost, strconv.Quote(host)+" is not a host name: "+msgs[0], "")
	}
}

// badParts are what a path that is compared element by element cannot hold.
func badParts() []string { return []string{"//", "/./", "/../", "%2f", "%2F"} }

func checkPath(r *report.Report, at field, p *networkingv1.HTTPIngressPath) {
	path := at.of("path")
	specific := p.PathType != nil && *p.PathType == networkingv1.PathTypeImplementationSpecific
	switch {
	case p.Path == "" && specific:
	case !strings.HasPrefix(p.Path, "/"):
		r.Fail(string(path), code.BadMatch, fmt.Sprintf("the path %q does not begin with a slash", p.Path), "")
	case !specific:
		for _, bad := range badParts() {
			if strings.Contains(p.Path, bad) {
				r.Fail(string(path), code.BadMatch, fmt.Sprintf("the path %q holds %q, which no normalized path has", p.Path, bad), "")
			}
		}
		if strings.HasSuffix(p.Path, "/..") || strings.HasSuffix(p.Path, "/.") {
			r.Fail(string(path), code.BadMatch, fmt.Sprintf("the path %q ends in dots, as no normalized path does", p.Path), "")
		}
	}
	checkBackend(r, at.of("backend"), &p.Backend)
}

func checkBackend(r *report.Report, at field, b *networkingv1.IngressBackend) {
	switch {
	case b.Service != nil && b.Resource != nil:
		r.Fail(string(at), code.Conflict, "service and resource exclude each other", "keep one of them")
		return
	case b.Resource != nil:
		return
	case b.Service == nil:
		r.Fail(string(at), code.Missing, "the backend names nothing", "set its service")
		return
	}
	if len(validation.IsDNS1035Label(b.Service.Name)) > 0 && len(validation.IsDNS1123Label(b.Service.Name)) > 0 {
		r.Fail(string(at.of("service").of("name")), code.BadName, strconv.Quote(b.Service.Name)+" is not the name of a Service", "")
	}
	port := at.of("service").of("port")
	switch p := b.Service.Port; {
	case p.Name != "" && p.Number != 0:
		r.Fail(string(port), code.Conflict, "name and number exclude each other", "keep one of them")
	case p.Name == "" && p.Number == 0:
		r.Fail(string(port), code.NoPort, "the backend names no port", "set port.number or port.name")
	case p.Name != "" && len(validation.IsValidPortName(p.Name)) > 0:
		r.Fail(string(port.of("name")), code.BadName, strconv.Quote(p.Name)+" is not the name of a port", "")
	}
}
