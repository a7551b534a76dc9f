package proxyconfig

import (
	"slices"
	"strings"

	"fairway/internal/ctl/output"
)

var routeHeader = []string{"NAME", "VHOST NAME", "DOMAINS", "MATCH", "VIRTUAL SERVICE"}

// mostDomains is how many domains of a virtual host a row shows.
const mostDomains = 2

// routeRows has a row for each route that differs from the one above it.
func routeRows(f *filter, m message) [][]string {
	var rows [][]string
	for _, host := range objects(m.body, "virtualHosts") {
		name := text(host, "name")
		domains := texts(host, "domains")
		made := madeBy(m.made[name])
		// the resource name of a virtual host begins with that of its route configuration, which has a column of its own
		start := []string{m.name, strings.TrimPrefix(name, m.name+"/"), few(domains, mostDomains)}
		if !f.hasPort(portOf(m.name, name)) || f.fqdn != "" && !slices.ContainsFunc(domains, func(d string) bool {
			return strings.Contains(d, f.fqdn)
		}) {
			continue
		}
		routes := objects(host, "routes")
		if len(routes) == 0 {
			rows = append(rows, append(start, "-", made))
		}
		for _, r := range routes {
			rule := ruleOf(r)
			if rule == "" {
				rule = made
			}
			rows = append(rows, append(slices.Clone(start), routeMatch(r), rule))
		}
	}
	if len(rows) == 0 && len(objects(m.body, "virtualHosts")) == 0 && f.port == 0 && f.fqdn == "" {
		rows = append(rows, []string{m.name, "-", "-", "-", ""})
	}
	return slices.CompactFunc(rows, slices.Equal)
}

// portOf returns the port of a virtual host: at the end of its name, or the name of its route configuration.
func portOf(config, host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		return host[i+1:]
	}
	if i := strings.LastIndexByte(config, '.'); i >= 0 {
		return config[i+1:]
	}
	return config
}

// madeBy returns the VirtualServices among the objects that a virtual host was made from, as name.namespace.
func madeBy(objects []string) string {
	out := ofKind(objects, "VirtualService")
	for i, path := range out {
		if namespace, name, ok := strings.Cut(path, "/"); ok {
			out[i] = name + "." + namespace
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// ofKind returns namespace/name of those objects that are of some kinds, in order. An object is written "KIND NAMESPACE/NAME (PLACE)".
func ofKind(objects []string, kinds ...string) (out []string) {
	for _, o := range objects {
		if kind, rest, _ := strings.Cut(o, " "); slices.Contains(kinds, kind) {
			path, _, _ := strings.Cut(rest, " ")
			out = append(out, path)
		}
	}
	return out
}

// routeMatch returns the path that a route matches, and what else it asks for.
func routeMatch(route map[string]any) string {
	match := object(route, "match")
	var path string
	switch {
	case match["prefix"] != nil:
		path = text(match, "prefix") + "*"
	case match["pathSeparatedPrefix"] != nil:
		path = text(match, "pathSeparatedPrefix") + "/*"
	case match["path"] != nil:
		path = text(match, "path")
	case match["safeRegex"] != nil:
		path = "regex " + text(object(match, "safeRegex"), "regex")
	case match["pathMatchPolicy"] != nil:
		path = "template"
	case match["connectMatcher"] != nil:
		path = "CONNECT"
	default:
		path = "*"
	}
	for _, more := range []struct{ field, word string }{
		{"headers", "headers"}, {"queryParameters", "params"}, {"grpc", "grpc"}, {"tlsContext", "tls"},
		{"runtimeFraction", "fraction"}, {"dynamicMetadata", "metadata"},
	} {
		if match[more.field] != nil {
			path += " " + more.word
		}
	}
	return output.OrDash(path)
}
