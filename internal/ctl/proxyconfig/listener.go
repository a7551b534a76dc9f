package proxyconfig

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"fairway/internal/ctl/output"
)

var listenerHeader = []string{"ADDRESSES", "PORT", "MATCH", "DESTINATION"}

func listenerRows(f *filter, m message) [][]string {
	first, port := socketOf(object(m.body, "address"))
	addresses := []string{first}
	for _, more := range objects(m.body, "additionalAddresses") {
		host, _ := socketOf(object(more, "address"))
		addresses = append(addresses, host)
	}
	chains := objects(m.body, "filterChains")
	if last := object(m.body, "defaultFilterChain"); last != nil {
		chains = append(chains, last)
	}
	if !f.hasPort(port) || f.address != "" && !slices.Contains(addresses, f.address) || !f.hasType(listenerType(chains)) {
		return nil
	}
	var rows [][]string
	for _, c := range chains {
		rows = append(rows, []string{strings.Join(addresses, ","), output.OrDash(port), matchOf(c), destinationOf(c)})
	}
	if len(rows) == 0 { // of UDP, or with filters of its own alone
		rows = append(rows, []string{strings.Join(addresses, ","), output.OrDash(port), "ALL", otherTraffic})
	}
	return rows
}

func (f *filter) hasType(is string) bool { return f.typ == "" || strings.EqualFold(f.typ, is) }

// listenerType is what the chains of a listener take: HTTP, TCP, or HTTP+TCP.
func listenerType(chains []map[string]any) string {
	var is []string
	for _, typ := range []struct{ name, filter string }{{"HTTP", httpFilter}, {"TCP", tcpFilter}} {
		if slices.ContainsFunc(chains, func(c map[string]any) bool { return filterOf(c, typ.filter) != nil }) {
			is = append(is, typ.name)
		}
	}
	return strings.Join(is, "+")
}

// The filters that decide where a connection goes, as the ends of their types' names.
const (
	httpFilter = ".HttpConnectionManager"
	tcpFilter  = ".TcpProxy"
)

// otherTraffic is the destination of a chain that neither of them ends.
const otherTraffic = "Non-HTTP/Non-TCP"

// filterOf returns the configuration of a chain's filter of a type; nil: it has none.
func filterOf(chain map[string]any, typ string) map[string]any {
	for _, f := range objects(chain, "filters") {
		if c := object(f, "typedConfig"); strings.HasSuffix(text(c, "@type"), typ) {
			return c
		}
	}
	return nil
}

// matchOf returns the connections that a chain takes.
func matchOf(chain map[string]any) string {
	match := object(chain, "filterChainMatch")
	var out []string
	add := func(label string, values []string) {
		if len(values) > 0 {
			out = append(out, label+": "+strings.Join(values, ","))
		}
	}
	add("SNI", texts(match, "serverNames"))
	if transport := text(match, "transportProtocol"); transport != "" {
		add("Trans", []string{transport})
	}
	add("App", texts(match, "applicationProtocols"))
	addresses := ranges(match, "prefixRanges")
	if port := number(match, "destinationPort"); port != "" {
		if len(addresses) == 0 {
			addresses = []string{"*"}
		}
		for i := range addresses {
			addresses[i] += ":" + port
		}
	}
	add("Addr", addresses)
	add("Source", slices.Concat(ranges(match, "sourcePrefixRanges"), ranges(match, "directSourcePrefixRanges")))
	add("Source port", texts(match, "sourcePorts"))
	if len(out) == 0 {
		return "ALL"
	}
	return strings.Join(out, "; ")
}

// ranges returns blocks of addresses; one address has no length behind it.
func ranges(match map[string]any, field string) (out []string) {
	for _, r := range objects(match, field) {
		address, length := text(r, "addressPrefix"), number(r, "prefixLen")
		whole := length == "32" && !strings.Contains(address, ":") || length == "128"
		if !whole {
			if length == "" {
				length = "0"
			}
			address += "/" + length
		}
		out = append(out, address)
	}
	return out
}

// destinationOf returns where a chain sends what it takes.
func destinationOf(chain map[string]any) string {
	if http := filterOf(chain, httpFilter); http != nil {
		if name := text(object(http, "rds"), "routeConfigName"); name != "" {
			return "Route: " + name
		}
		if object(http, "scopedRoutes") != nil {
			return "Scoped routes"
		}
		return "Inline Route: " + inline(object(http, "routeConfig"))
	}
	tcp := filterOf(chain, tcpFilter)
	if tcp == nil {
		return otherTraffic
	}
	if name := text(tcp, "cluster"); name != "" {
		if strings.HasSuffix(name, "PassthroughCluster") {
			return name
		}
		return "Cluster: " + name
	}
	var parts []string
	for _, c := range objects(object(tcp, "weightedClusters"), "clusters") {
		parts = append(parts, text(c, "name")+" weight: "+number(c, "weight"))
	}
	return "Cluster: " + strings.Join(parts, ", ")
}

// mostInline is how many matches of an inline route configuration a row shows.
const mostInline = 3

func inline(config map[string]any) string {
	var matches []string
	for _, host := range objects(config, "virtualHosts") {
		for _, r := range objects(host, "routes") {
			if m := routeMatch(r); !slices.Contains(matches, m) {
				matches = append(matches, m)
			}
		}
	}
	return few(matches, mostInline)
}

// few joins texts, and counts those after the first.
func few(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s + %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// socketOf returns an address's host and port; a Unix socket has no port.
func socketOf(a map[string]any) (host, port string) {
	if pipe := object(a, "pipe"); pipe != nil {
		return "unix://" + text(pipe, "path"), ""
	}
	if to := object(a, "envoyInternalAddress"); to != nil {
		return "envoy://" + text(to, "serverListenerName"), ""
	}
	socket := object(a, "socketAddress")
	if socket == nil {
		return "-", ""
	}
	if port = number(socket, "portValue"); port == "" {
		port = "0"
	}
	return text(socket, "address"), port
}

func address(a map[string]any) string {
	host, port := socketOf(a)
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}
