package histories

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/test/rig"
)

// draw makes objects at random, of few names, hosts, labels and ports, so that they meet.
type draw struct{ *rand.Rand }

func pick[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

// often is true n times of ten.
func (d draw) often(n int) bool { return d.IntN(10) < n }

// some are a few of the given, in order, at least one.
func some[T any](d draw, from ...T) []T {
	var out []T
	for _, x := range from {
		if d.often(4) {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(d, from...))
	}
	return out
}

func list(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

var (
	namespaces = []string{"istio-system", "shop", "bank"}
	files      = []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml"}
	services   = []string{
		"a.shop.svc.cluster.local",
		"b.shop.svc.cluster.local",
		"a.bank.svc.cluster.local",
		"x.example.com",
		"y.example.com",
	}
	workloads = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"} // addresses of proxies, too
)

// kindsOf says how to draw each kind that has behaviour, and how often it comes.
var kindsOf = map[string]struct {
	weight int
	group  string
	spec   func(d draw) string
}{
	"ServiceEntry":          {6, "networking.istio.io/v1", draw.serviceEntry},
	"WorkloadEntry":         {3, "networking.istio.io/v1", draw.workloadEntry},
	"WorkloadGroup":         {1, "networking.istio.io/v1", draw.workloadGroup},
	"VirtualService":        {6, "networking.istio.io/v1", draw.virtualService},
	"DestinationRule":       {4, "networking.istio.io/v1", draw.destinationRule},
	"Sidecar":               {3, "networking.istio.io/v1", draw.sidecar},
	"Gateway":               {4, "networking.istio.io/v1", draw.gateway},
	"EnvoyFilter":           {1, "networking.istio.io/v1alpha3", draw.envoyFilter},
	"PeerAuthentication":    {2, "security.istio.io/v1", draw.peerAuthentication},
	"AuthorizationPolicy":   {2, "security.istio.io/v1", draw.authorizationPolicy},
	"RequestAuthentication": {2, "security.istio.io/v1", draw.requestAuthentication},
	"WasmPlugin":            {2, "extensions.istio.io/v1alpha1", draw.wasmPlugin},
	"TrafficExtension":      {2, "extensions.istio.io/v1alpha1", draw.trafficExtension},
	"Telemetry":             {2, "telemetry.istio.io/v1", draw.telemetry},
	"Ingress":               {2, "networking.k8s.io/v1", draw.ingress},
	"IngressClass":          {1, "networking.k8s.io/v1", draw.ingressClass},
	"GatewayClass":          {1, "gateway.networking.k8s.io/v1", draw.gatewayClass},
	apiGateway:              {3, "gateway.networking.k8s.io/v1", draw.apiGateway},
	"ListenerSet":           {1, "gateway.networking.k8s.io/v1", draw.listenerSet},
	"HTTPRoute":             {4, "gateway.networking.k8s.io/v1", draw.httpRoute},
	"GRPCRoute":             {1, "gateway.networking.k8s.io/v1", draw.grpcRoute},
	"TLSRoute":              {1, "gateway.networking.k8s.io/v1", draw.tlsRoute},
	"TCPRoute":              {1, "gateway.networking.k8s.io/v1", draw.tcpRoute},
	"UDPRoute":              {1, "gateway.networking.k8s.io/v1", draw.udpRoute},
	"ReferenceGrant":        {1, "gateway.networking.k8s.io/v1", draw.referenceGrant},
	"BackendTLSPolicy":      {2, "gateway.networking.k8s.io/v1", draw.backendTLSPolicy},
	"InferencePool":         {2, "inference.networking.k8s.io/v1", draw.inferencePool},
	"Secret":                {2, "v1", draw.secret},
	"ConfigMap":             {1, "v1", draw.configMap},
}

var kinds = sync.OnceValue(func() (out []string) {
	for _, kind := range slices.Sorted(maps.Keys(kindsOf)) {
		out = append(out, slices.Repeat([]string{kind}, kindsOf[kind].weight)...)
	}
	return out
})

// object draws one.
func (d draw) object() document {
	kind := pick(d, kinds()...)
	k := kindsOf[kind]
	namespace, name := pick(d, namespaces...), pick(d, "one", "two", "three")
	if kind == "PeerAuthentication" || kind == "Sidecar" {
		name = pick(d, "default", "one")
	}
	meta := fmt.Sprintf("name: %s, namespace: %s", name, namespace)
	if d.often(3) {
		meta += fmt.Sprintf(", creationTimestamp: \"2020-01-0%dT00:00:00Z\"", 1+d.IntN(3))
	}
	if kind == "WorkloadEntry" && d.often(3) {
		meta += `, annotations: {proxy.istio.io/health-checks-enabled: "true"}`
	}
	if kind == "Secret" {
		meta += d.granted()
	}
	switch {
	case kind == "ServiceEntry" && d.often(3):
		meta += fmt.Sprintf(", annotations: {fairway/rules-from: %q}", d.agreed())
	case kind == "Ingress" && d.often(4):
		meta += fmt.Sprintf(", annotations: {kubernetes.io/ingress.class: %q}", pick(d, "istio", "other", ""))
	case kind == "GatewayClass":
		namespace = "istio-system" // it is in none
		name = pick(d, "istio", "one")
		meta = "name: " + name
	case kind == "IngressClass":
		namespace = "istio-system" // it is in none
		meta = "name: " + name + fmt.Sprintf(", annotations: {ingressclass.kubernetes.io/is-default-class: %q}", pick(d, "true", "false"))
	}
	body := k.spec(d)
	if kind != "Secret" && kind != "ConfigMap" {
		body = "spec: {" + body + "}"
	}
	return document{
		File: pick(d, files...), Key: kind + "/" + namespace + "/" + name,
		Text: fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {%s}\n%s\n", k.group, config.Kind(kind).Word(), meta, body),
	}
}

// granted draws the holders of a Secret: accounts of its namespace, and Gateways of other namespaces.
func (d draw) granted() string {
	accounts, gateways := pick(d, "*", "web", "edge,web"), pick(d, "", "", "*", "bank", "shop, bank", "no/name")
	if gateways == "" {
		return fmt.Sprintf(", annotations: {fairway/service-accounts: %q}", accounts)
	}
	return fmt.Sprintf(", annotations: {fairway/service-accounts: %q, fairway/gateway-namespaces: %q}", accounts, gateways)
}

// agreed draws the namespaces from which a service's owner accepts rules.
func (d draw) agreed() string { return pick(d, "", "*", "bank", "shop", "bank, shop", "no/name") }

func (d draw) exportTo() string {
	return pick(d, "", "", "", `, exportTo: ["*"]`, `, exportTo: ["."]`, ", exportTo: [bank]", ", exportTo: [shop, bank]",
		`, exportTo: ["~"]`)
}

// ruleExport draws exportTo of a rule, which cannot be "~".
func (d draw) ruleExport() string {
	out := d.exportTo()
	if strings.Contains(out, "~") {
		return ""
	}
	return out
}

func (d draw) labels() string {
	return pick(d, "app: a", "app: b", "app: a, version: v1", "app: b, version: v2", "version: v1")
}

func (d draw) host() string {
	return pick(d, "a.shop.svc.cluster.local", "a.shop.svc.cluster.local", "a", "b.shop.svc.cluster.local",
		"a.bank.svc.cluster.local", "x.example.com", "y.example.com", "nowhere.example.com")
}

func (d draw) pattern() string {
	return pick(d, d.host(), d.host(), d.host(), `"*.example.com"`, `"*.shop.svc.cluster.local"`, `"*.cluster.local"`)
}

// dynamic draws a ServiceEntry that sends each connection to the name that the client asks for.
func (d draw) dynamic() string {
	ports := []string{}
	for i, number := range some(d, 80, 81, 443) {
		ports = append(ports, fmt.Sprintf("{number: %d, name: p%d, protocol: %s%s}", number, i,
			pick(d, "HTTP", "HTTP", "HTTP2", "TLS", "HTTPS"), pick(d, "", "", ", targetPort: 8443")))
	}
	return `hosts: [` + pick(d, `"*.example.com"`, `"*.shop.svc.cluster.local"`, `"*.example.com", "*.cluster.local"`) +
		`], resolution: DYNAMIC_DNS, location: ` + pick(d, "MESH_INTERNAL", "MESH_EXTERNAL") + d.exportTo() + ", ports: " + list(ports)
}

func (d draw) serviceEntry() string {
	if d.often(2) {
		return d.dynamic()
	}
	hosts := some(d, services...)
	if len(hosts) > 2 {
		hosts = hosts[:2]
	}
	resolution := pick(d, "STATIC", "STATIC", "STATIC", "STATIC", "DNS", "DNS", "DNS_ROUND_ROBIN", "NONE")
	out := "hosts: " + list(hosts) + ", resolution: " + resolution + d.exportTo()
	ports := []string{}
	for i, number := range some(d, 80, 81, 443, 3306) {
		protocol := pick(d, "HTTP", "HTTP", "HTTP2", "GRPC", "TCP", "TLS", "HTTPS")
		target := ""
		if d.often(3) {
			target = fmt.Sprintf(", targetPort: %d", pick(d, 8080, 8081, 9090))
		}
		ports = append(ports, fmt.Sprintf("{number: %d, name: p%d, protocol: %s%s}", number, i, protocol, target))
	}
	out += ", ports: " + list(ports)
	if d.often(5) {
		out += ", location: " + pick(d, "MESH_INTERNAL", "MESH_EXTERNAL")
	}
	if d.often(4) && resolution != "DNS" && resolution != "DNS_ROUND_ROBIN" || resolution == "NONE" && d.often(5) {
		out += ", addresses: " + list(some(d, "10.1.0.1", "10.1.0.2", "10.2.0.0/16"))
	}
	switch {
	case resolution == "NONE":
	case d.often(4) && (resolution == "STATIC" || resolution == "DNS"):
		out += ", workloadSelector: {labels: {" + d.labels() + "}}"
	case resolution == "STATIC" || d.often(6):
		out += ", endpoints: " + list(d.endpoints(resolution))
	}
	if d.often(2) {
		out += ", subjectAltNames: [" + pick(d, "spiffe://cluster.local/ns/shop/sa/web", "x.example.com") + "]"
	}
	return out
}

func (d draw) endpoints(resolution string) []string {
	addresses := workloads
	if resolution != "STATIC" {
		addresses = []string{"one.example.net", "two.example.net", "10.0.0.1"}
	}
	var out []string
	for _, address := range some(d, addresses...) {
		out = append(out, fmt.Sprintf("{address: %q, labels: {%s}%s}", address, d.labels(), d.endpoint()))
	}
	return out
}

// endpoint draws more fields of a WorkloadEntry.
func (d draw) endpoint() string {
	return pick(d, "", "", "", ", weight: 3", ", locality: r1/z1", ", locality: r1/z2", ", locality: r2/z1",
		", serviceAccount: web", ", ports: {p0: 8088}", ", network: n1", ", network: n2, serviceAccount: web")
}

func (d draw) workloadEntry() string {
	return fmt.Sprintf("address: %q, labels: {%s}%s", pick(d, append(workloads, "127.0.0.1")...), d.labels(), d.endpoint())
}

func (d draw) workloadGroup() string {
	return fmt.Sprintf("metadata: {labels: {%s}%s}, template: {serviceAccount: %s%s}%s",
		pick(d, d.labels(), d.labels(), "istio: ingress"), pick(d, "", "", ", annotations: {team: a}"), pick(d, "web", "edge"),
		pick(d, "", "", ", weight: 3", ", locality: r1/z2", ", ports: {p0: 8088}", ", network: n2"),
		pick(d, "", "", ", probe: {tcpSocket: {port: 8080}}"))
}

func (d draw) destination() string {
	out := "host: " + pick(d, d.host(), d.host(), d.host(), d.host(), `"*.example.com"`, `"*.shop.svc.cluster.local"`)
	if d.often(4) {
		out += ", subset: " + pick(d, "v1", "v2")
	}
	if d.often(4) {
		out += fmt.Sprintf(", port: {number: %d}", pick(d, 80, 81, 3306))
	}
	return "{" + out + "}"
}

func (d draw) virtualService() string {
	if d.often(2) {
		return strings.TrimPrefix(d.ruleExport()+", "+d.http(false), ", ") // a delegate
	}
	hosts := d.pattern()
	gateways := pick(d, "", "", "", ", gateways: [mesh]", ", gateways: [shop/one]", ", gateways: [mesh, shop/one]",
		", gateways: [istio-system/two, shop/one]")
	if strings.Contains(gateways, "/") && d.often(3) {
		hosts, gateways = `"*"`, ", gateways: [shop/one]"
	}
	if d.often(2) && hosts != `"*"` {
		if more := d.pattern(); more != hosts && !strings.Contains(hosts+more, "*") { // hosts may not overlap
			hosts += ", " + more
		}
	}
	return "hosts: [" + hosts + "]" + gateways + d.ruleExport() + ", " + pick(d, d.roots, d.roots, d.roots, d.tcp, d.tls)()
}

func (d draw) roots() string { return d.http(true) }

// http draws routes; those of a root may be another VirtualService's.
func (d draw) http(root bool) string {
	var routes []string
	for range 1 + d.IntN(3) {
		match := ""
		if d.often(6) {
			match = "match: [{" + pick(d, "uri: {prefix: /a}", "uri: {exact: /b}", "uri: {regex: /c.*}",
				"headers: {x: {exact: y}}", "port: 80", "sourceLabels: {app: a}", "sourceLabels: {app: b}",
				"sourceNamespace: shop", "gateways: [shop/one]", "gateways: [mesh]", "queryParams: {q: {exact: r}}",
				"method: {exact: GET}, uri: {prefix: /a}") + "}], "
		}
		then := pick(d, "redirect: {uri: /z}", "directResponse: {status: 418}", "", "", "", "")
		if root && d.often(3) {
			then = "delegate: {name: " + pick(d, "one", "two", "three") + ", namespace: " + pick(d, namespaces...) + "}" +
				pick(d, "", ", timeout: 4s", ", rewrite: {uri: /x}")
		}
		if then == "" {
			then = "route: [{destination: " + d.destination() + "}]"
			if d.often(3) {
				then = "route: [{destination: " + d.destination() + ", weight: 30}, {destination: " + d.destination() + ", weight: 70}]"
			}
			then += pick(d, "", "", "", ", timeout: 3s", ", retries: {attempts: 2}",
				", fault: {abort: {percentage: {value: 10}, httpStatus: 503}}", ", mirror: {host: "+d.host()+"}",
				", rewrite: {uri: /y}", ", headers: {request: {set: {h: v}}}", ", corsPolicy: {allowOrigins: [{exact: x}]}")
		}
		routes = append(routes, "{"+match+then+"}")
	}
	if d.often(2) {
		routes = append([]string{d.manyMatches()}, routes...)
	}
	return "http: " + list(routes)
}

// manyMatches draws a route of so many matches that the routes of a rule with several hosts are built once for all.
func (d draw) manyMatches() string {
	var matches []string
	for i := range 14 + d.IntN(30) {
		more := pick(d, "", "", "", ", headers: {x: {exact: y}}")
		matches = append(matches, fmt.Sprintf("{uri: {prefix: /%s%d}%s}", pick(d, "m", "n"), i, more))
	}
	return "{match: " + list(matches) + ", " + pick(d, "", "retries: {attempts: 3}, ") + "route: [{destination: " + d.destination() + "}]}"
}

func (d draw) tcp() string {
	match := func() string {
		return pick(d, "", "match: [{port: 3306}], ", "match: [{destinationSubnets: [10.1.0.0/24]}], ",
			"match: [{sourceLabels: {app: a}}], ",
			"match: [{sourceLabels: {app: a, version: v1}}, {sourceLabels: {app: b}, port: 3306}], ",
			"match: [{sourceNamespace: shop}], ", "match: [{gateways: [shop/one]}], ")
	}
	var routes []string
	for range 1 + d.IntN(2) {
		routes = append(routes, "{"+match()+"route: [{destination: "+d.destination()+"}]}")
	}
	return "tcp: " + list(routes)
}

func (d draw) tls() string {
	return fmt.Sprintf("tls: [{match: [{sniHosts: [%s]%s}], route: [{destination: %s}]}]",
		pick(d, "x.example.com", "a.shop.svc.cluster.local", "y.example.com", `"*.example.com"`),
		pick(d, "", ", port: 443", ", sourceLabels: {app: a}", ", sourceNamespace: bank"), d.destination())
}

func (d draw) policy() string {
	return pick(
		d,
		"loadBalancer: {simple: ROUND_ROBIN}",
		"loadBalancer: {simple: PASSTHROUGH}",
		"loadBalancer: {consistentHash: {httpHeaderName: x}}",
		"connectionPool: {http: {http1MaxPendingRequests: 7}}",
		"outlierDetection: {consecutive5xxErrors: 3}",
		"outlierDetection: {}, loadBalancer: {localityLbSetting: {enabled: false}}",
		"loadBalancer: {zoneAwareLbSetting: {enabled: "+pick(d, "true", "false")+", minClusterSize: 1}}",
		"loadBalancer: {zoneAwareLbSetting: {enabled: true, failover: [{from: r1, to: r2}], failoverPriority: [version]}}",
		"outlierDetection: {}, loadBalancer: {localityLbSetting: {failover: [{from: r1, to: r2}]}}",
		"outlierDetection: {}, loadBalancer: {localityLbSetting: {failoverPriority: ["+pick(
			d, "app", "version=v1", "topology.kubernetes.io/zone, app", "topology.istio.io/network",
			"app, topology.istio.io/cluster",
		)+"]}}",
		`loadBalancer: {localityLbSetting: {distribute: [{from: "r1/*", to: {"r1/*": 70, "r2/*": 30}}]}}`,
		"tls: {mode: ISTIO_MUTUAL}",
		"tls: {mode: DISABLE}",
		"tls: {mode: SIMPLE, sni: x}",
		"tls: {mode: SIMPLE, credentialName: one}",
		`tls: {mode: SIMPLE, credentialName: "configmap://two"}`,
		"portLevelSettings: [{port: {number: 80}, tls: {mode: DISABLE}}]",
	)
}

func (d draw) destinationRule() string {
	out := "host: " + d.pattern()
	if d.often(3) {
		out += ", workloadSelector: {matchLabels: {" + pick(d, "app: a", "app: b", "istio: ingress") + "}}" +
			pick(d, "", `, exportTo: ["."]`) // it is for its own namespace alone
	} else {
		out += d.ruleExport()
	}
	if d.often(5) {
		out += ", trafficPolicy: {" + d.policy() + "}"
	}
	subsets := []string{}
	for _, v := range some(d, "v1", "v2") {
		more := ""
		if d.often(3) {
			more = ", trafficPolicy: {" + d.policy() + "}"
		}
		subsets = append(subsets, fmt.Sprintf("{name: %s, labels: {version: %s}%s}", v, v, more))
	}
	return out + ", subsets: " + list(subsets)
}

func (d draw) sidecar() string {
	var out []string
	if d.often(6) {
		out = append(out, "workloadSelector: {labels: {"+pick(d, "app: a", "app: b")+"}}")
	}
	hosts := list(
		some(d, `"*/*"`, `"./*"`, `"shop/*"`, `"bank/a.bank.svc.cluster.local"`, `"*/x.example.com"`,
			`"shop/*.shop.svc.cluster.local"`, `"~/*"`),
	)
	if strings.Contains(hosts, `"~/*"`) {
		hosts = `["~/*"]`
	}
	egress := "{hosts: " + hosts + "}"
	if d.often(3) {
		egress = fmt.Sprintf(`{port: {number: %d, protocol: %s, name: e}, bind: 127.0.0.1, captureMode: NONE, hosts: ["*/*"]}, `,
			pick(d, 80, 9080), pick(d, "HTTP", "TCP")) + egress
	}
	if !d.often(4) { // without, a Sidecar imports everything
		out = append(out, "egress: ["+egress+"]")
	}
	if d.often(3) {
		out = append(
			out,
			fmt.Sprintf("ingress: [{port: {number: %d, %s, name: i}, defaultEndpoint: \"%s\"}]", pick(d, 8080, 80),
				pick(d, "protocol: HTTP", "protocol: TCP", "protocol: HTTPS}, tls: {mode: SIMPLE, serverCertificate: /c, privateKey: /k"),
				pick(d, "127.0.0.1:9090", "0.0.0.0:9091", "unix:///run/app.sock")),
		)
	}
	if d.often(3) {
		out = append(out, "outboundTrafficPolicy: {mode: "+pick(d, "REGISTRY_ONLY", "ALLOW_ANY",
			"ALLOW_ANY, egressProxy: {host: x.example.com, port: {number: 80}}",
			"ALLOW_ANY, egressProxy: {host: a.shop.svc.cluster.local, subset: v1, port: {number: 80}}")+"}")
	}
	return strings.Join(out, ", ")
}

func (d draw) gateway() string {
	var servers []string
	for i, server := range some(d, "http", "https", "mutual", "passthrough", "entrance", "tcp", "redirect") {
		hosts := pick(d, `"*"`, `"x.example.com"`, `"shop/*"`, `"./a.shop.svc.cluster.local"`)
		port, more := "", ""
		switch server {
		case "http":
			port = "number: 80, protocol: HTTP"
		case "https":
			port, more = "number: 443, protocol: HTTPS", ", tls: {"+d.clientTrust()+", credentialName: "+pick(d, "one", "two")+"}"
		case "mutual":
			port, more = "number: 8443, protocol: HTTPS", ", tls: {mode: ISTIO_MUTUAL}"
		case "passthrough":
			port, more = "number: 9443, protocol: TLS", ", tls: {mode: PASSTHROUGH}"
		case "entrance":
			port, more = "number: 15443, protocol: TLS", ", tls: {mode: AUTO_PASSTHROUGH}"
		case "tcp":
			port = "number: 3306, protocol: TCP"
		case "redirect":
			port, more = "number: 8080, protocol: HTTP", ", tls: {httpsRedirect: true}"
		}
		servers = append(servers, fmt.Sprintf("{port: {name: s%d, %s}, hosts: [%s]%s}", i, port, hosts, more))
	}
	return "selector: {" + pick(d, "istio: ingress", "istio: ingress", "app: a") + "}, servers: " + list(servers)
}

func (d draw) ingress() string {
	backend := func() string {
		port := pick(d, "number: 80", "number: 9000", "name: http", "name: p0")
		return "{service: {name: " + pick(d, "a", "b") + ", port: {" + port + "}}}"
	}
	path := func() string {
		kind := pick(d, "Exact", "Prefix", "Prefix", "ImplementationSpecific")
		return fmt.Sprintf("{path: %s, pathType: %s, backend: %s}", pick(d, "/", "/a", "/a/", "/a/b"), kind, backend())
	}
	var rules []string
	for _, host := range some(d, "", "host: x.example.com, ", `host: "*.example.com", `) {
		paths := []string{path()}
		for d.often(5) {
			paths = append(paths, path())
		}
		rules = append(rules, "{"+host+"http: {paths: "+list(paths)+"}}")
	}
	out := "rules: " + list(rules)
	if d.often(5) {
		out += ", ingressClassName: " + pick(d, "one", "two")
	}
	if d.often(3) {
		out += ", defaultBackend: " + backend()
	}
	if d.often(4) {
		out += ", tls: [{" + pick(d, "", "hosts: [x.example.com], ") + "secretName: " + pick(d, "one", "two") + "}]"
	}
	return out
}

func (d draw) ingressClass() string {
	return "controller: " + pick(d, "istio.io/ingress-controller", "example.com/other")
}

func (d draw) envoyFilter() string {
	selector := pick(d, "", "workloadSelector: {labels: {app: a}}, ", "workloadSelector: {labels: {istio: ingress}}, ",
		"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], ")
	match := pick(d, "", "match: {proxy: {metadata: {CLUSTER_ID: c1}}}, ", "match: {context: GATEWAY}, ",
		"match: {context: SIDECAR_OUTBOUND}, ", `match: {proxy: {proxyVersion: "^1\\.3"}}, `)
	boot := fmt.Sprintf("{applyTo: BOOTSTRAP, %spatch: {operation: MERGE, value: {stats_flush_interval: %ds}}}", match, 1+d.IntN(9))
	sent := some(d,
		"{applyTo: CLUSTER, "+match+"patch: {operation: MERGE, value: {connect_timeout: "+pick(d, "3s", "4s")+"}}}",
		"{applyTo: CLUSTER, match: {cluster: {service: "+d.host()+"}}, patch: {operation: REMOVE}}",
		"{applyTo: CLUSTER, patch: {operation: ADD, value: {name: added, type: STATIC, connect_timeout: "+pick(d, "1s", "2s")+"}}}",
		"{applyTo: LISTENER, "+match+"patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 1024}}}",
		"{applyTo: HTTP_FILTER, match: {context: "+pick(d, "SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY")+
			"}, patch: {operation: INSERT_FIRST, value: {name: envoy.filters.http.buffer, typed_config: "+
			`{"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 9000}}}}`,
		"{applyTo: HTTP_FILTER, "+match+"patch: {operation: INSERT_FIRST, value: {name: by-name, config_discovery: "+
			"{config_source: {ads: {}}, type_urls: [type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer]}}}}",
		"{applyTo: EXTENSION_CONFIG, "+match+"patch: {operation: "+pick(d, "ADD", "ADD", "MERGE", "REPLACE")+
			", value: {name: by-name, typed_config: "+
			`{"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: `+pick(d, "1000", "2000")+"}}}}",
		"{applyTo: VIRTUAL_HOST, "+match+"patch: {operation: MERGE, value: {response_headers_to_remove: [x]}}}",
		"{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {route: {action: ROUTE}}}}, "+
			"patch: {operation: MERGE, value: {route: {timeout: 8s}}}}",
	)
	if d.often(3) {
		sent = append(sent, d.manyMerges()...)
	}
	return fmt.Sprintf("%spriority: %d, configPatches: %s", selector, d.IntN(3), list(append(sent, boot)))
}

// manyMerges draws so many patches of all clusters that they are applied as one, with another one among them at times.
func (d draw) manyMerges() (out []string) {
	for i := range 6 + d.IntN(12) {
		value := pick(d,
			fmt.Sprintf("metadata: {filter_metadata: {k%d: {v: %d}}}", i%5, d.IntN(3)),
			"connect_timeout: "+pick(d, "5s", "6s"),
			"circuit_breakers: {thresholds: [{max_requests: "+pick(d, "10", "20")+"}]}")
		out = append(out, "{applyTo: CLUSTER, patch: {operation: MERGE, value: {"+value+"}}}")
	}
	if d.often(2) {
		out = append(out, "{applyTo: CLUSTER, match: {cluster: {service: "+d.host()+"}}, "+
			"patch: {operation: MERGE, value: {connect_timeout: 7s}}}")
		d.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// extended draws the fields that WasmPlugins and TrafficExtensions share: the workloads, the traffic, and the order.
func (d draw) extended() string {
	out := pick(d, "", "", "selector: {matchLabels: {"+d.labels()+"}}, ",
		"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], ")
	out += pick(d, "", "match: [{mode: SERVER}], ",
		"match: [{mode: CLIENT, ports: [{number: 80}]}, {mode: SERVER, ports: [{number: 8080}]}], ")
	return out + pick(d, "", "phase: AUTHN, ", "phase: AUTHZ, ", "phase: STATS, ") + pick(d, "", "priority: 5, ", "priority: -5, ")
}

func (d draw) wasmPlugin() string {
	return d.extended() + strings.Join(some(d, "failStrategy: FAIL_OPEN", "type: NETWORK", "pluginConfig: {a: "+pick(d, "1", "2")+"}",
		"vmConfig: {env: [{name: "+pick(d, "A", "not-a-name")+", value: x}]}"), ", ") +
		", url: " + pick(d, `"file:///opt/a.wasm"`, "oci://r.example.com/a:v1", "https://r.example.com/a.wasm") + d.pullSecret()
}

func (d draw) pullSecret() string {
	return pick(d, "", "", ", imagePullSecret: one", ", imagePullSecret: two", ", imagePullSecret: nowhere")
}

func (d draw) trafficExtension() string {
	return d.extended() + pick(d, `lua: {inlineCode: "function envoy_on_request(h) end"}`, `lua: {inlineCode: "function envoy_on_response(h) end"}`,
		"wasm: {url: oci://r.example.com/b"+d.pullSecret()+"}")
}

func (d draw) telemetry() string {
	providers := func(of ...string) string { return "providers: [{name: " + pick(d, of...) + "}]" }
	mode := func() string { return pick(d, "", "match: {mode: CLIENT}, ", "match: {mode: SERVER}, ") }
	return pick(d, "", "selector: {matchLabels: {app: a}}, ", "selector: {matchLabels: {istio: ingress}}, ") + strings.Join(some(d,
		"accessLogging: [{"+mode()+providers("envoy", "als", "nowhere")+"}]",
		"accessLogging: [{"+mode()+"disabled: "+pick(d, "true", "false")+"}]",
		"tracing: [{"+mode()+providers("zipkin", "otel")+", randomSamplingPercentage: "+pick(d, "1", "50")+"}]",
		"tracing: [{"+mode()+"disableSpanReporting: true}]",
		"tracing: [{"+mode()+"disableContextPropagation: "+pick(d, "true", "false")+"}]",
		"metrics: [{overrides: [{"+pick(d, "", "match: {metric: REQUEST_COUNT}, ")+
			pick(d, "disabled: true", "tagOverrides: {who: {value: request.host}, destination_app: {operation: REMOVE}}")+"}]}]",
	)[:1], ", ")
}

// authorizationPolicy is one for workloads, for namespaces or for gateways; some ask for what only requests have.
func (d draw) authorizationPolicy() string {
	rule := pick(d, "{}", `{to: [{operation: {ports: ["8080"]}}]}`, "{to: [{operation: {methods: [GET], paths: [/a*]}}]}",
		"{from: [{source: {namespaces: [shop]}}]}", "{from: [{source: {namespaces: [elsewhere], serviceAccounts: [shop/wbe]}}]}",
		"{from: [{source: {principals: [cluster.local/ns/shop/sa/web, cluster.local/ns/bank/sa/a]}}]}",
		`{from: [{source: {principals: ["*/sa/web"]}}], when: [{key: "request.auth.claims[groups]", values: [a]}]}`)
	out := pick(d, "", "", "selector: {matchLabels: {"+d.labels()+"}}, ",
		"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], ")
	return out + pick(d, "", "rules: ["+rule+"]", "action: DENY, rules: ["+rule+"]", "action: AUDIT, rules: ["+rule+"]")
}

// requestAuthentication draws rules with keys in the rule itself, with useless keys, or with keys of an issuer that does not answer.
func (d draw) requestAuthentication() string {
	keys := func() string {
		return pick(d, fmt.Sprintf("jwks: '%s'", jwks.UnmatchableKeySet()), "jwks: '{}'", `jwksUri: "http://127.0.0.1:1/keys"`,
			`jwksUri: "http://127.0.0.1:1/others"`)
	}
	out := pick(d, "", "", "selector: {matchLabels: {"+d.labels()+"}}, ",
		"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], ")
	out += "jwtRules: [{issuer: one, " + keys() + "}"
	if d.often(3) {
		out += ", {issuer: two, outputClaimToHeaders: [{header: x-who, claim: sub}], " + keys() + "}"
	}
	return out + "]"
}

func (d draw) peerAuthentication() string {
	out := "mtls: {mode: " + pick(d, "STRICT", "PERMISSIVE", "DISABLE", "UNSET") + "}"
	if d.often(5) {
		out += ", selector: {matchLabels: {" + pick(d, "app: a", "app: b") + "}}"
		if d.often(5) {
			out += ", portLevelMtls: {8080: {mode: " + pick(d, "STRICT", "DISABLE") + "}}"
		}
	}
	return out
}

// pairs are certificates and their keys, made once: what a Secret holds is one of few.
var pairs = sync.OnceValue(func() (out []string) {
	encoded := base64.StdEncoding.EncodeToString
	for range 3 {
		certificate, key, err := rig.Pair()
		if err != nil {
			panic(err)
		}
		out = append(out, "data: {tls.crt: "+encoded(certificate)+", tls.key: "+encoded(key)+"}",
			"data: {ca.crt: "+encoded(certificate)+"}", "stringData: {ca.crt: "+strconv.Quote(string(certificate))+"}")
	}
	return out
})

func (d draw) secret() string {
	registries := func(host, password string) string {
		return `stringData: {.dockerconfigjson: '{"auths": {"` + host + `": {"username": "me", "password": "` + password + `"}}}'}`
	}
	return pick(d, slices.Concat(pairs(), []string{
		registries("r.example.com", "a"), registries("r.example.com", "b"), registries("other.example", "a"),
	})...)
}

// configMap draws one with authorities, or without.
func (d draw) configMap() string {
	if d.often(2) {
		return "data: {" + d.parameters() + "}"
	}
	if text, ok := strings.CutPrefix(pick(d, pairs()...), "stringData: "); ok {
		return "data: " + text
	}
	return "data: {other: x}"
}

// clientTrust draws whether a server asks clients for a certificate, and where the authorities are.
func (d draw) clientTrust() string {
	return pick(d, "mode: SIMPLE", "mode: SIMPLE", "mode: MUTUAL, caCertCredentialName: "+pick(d, "one", "two", "three"),
		`mode: OPTIONAL_MUTUAL, caCertCredentialName: "configmap://`+pick(d, "one", "shop/two", "bank/three")+`"`)
}

// mesh draws a mesh configuration; empty: there is none.
func (d draw) mesh() string {
	if d.often(2) {
		return ""
	}
	return strings.Join(
		some(
			d,
			"connectTimeout: "+pick(d, "3s", "4s"),
			d.discovery(),
			"outboundTrafficPolicy: {mode: "+pick(d, "REGISTRY_ONLY", "ALLOW_ANY", "ALLOW_ANY_DYNAMIC_DNS",
				"ALLOW_ANY_DYNAMIC_DNS, tls: {mode: "+pick(d, "SIMPLE", "ISTIO_MUTUAL")+"}")+"}",
			"tlsDefaults: {minProtocolVersion: "+pick(d, "TLSV1_2", "TLSV1_3")+", ecdhCurves: ["+pick(d, "P-256", "X25519, none")+"]}",
			"disableEnvoyListenerLog: true",
			"serviceEntryVisibility: {applyToSidecars: "+pick(d, "true", "false")+", policies: [{visibility: "+
				pick(d, "NONE", "NAMESPACE", "PUBLIC")+", matchingRules: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+
				pick(d, "shop", "bank")+"}}}]}]}",
			"protocolDetectionTimeout: 2s",
			"accessLogFile: "+pick(d, "/dev/stdout", "/tmp/log"),
			"accessLogEncoding: JSON",
			"defaultServiceExportTo: ["+pick(d, `"."`, `"*"`, "bank")+"]",
			`defaultVirtualServiceExportTo: ["."]`,
			`defaultDestinationRuleExportTo: ["."]`,
			"enableAutoMtls: "+pick(d, "true", "false"),
			"h2UpgradePolicy: UPGRADE",
			"trustDomainAliases: [old.example]",
			"pathNormalization: {normalization: MERGE_SLASHES}",
			"defaultHttpRetryPolicy: {attempts: 1}",
			"localityLbSetting: {enabled: "+pick(d, "true", "false")+"}",
			"zoneAwareLbSetting: {enabled: "+pick(d, "true", "false")+"}",
			"defaultTrafficPolicy: {outlierDetection: {}}",
			"outboundClusterStatName: \"%SERVICE%\"",
			"inboundClusterStatName: \"in_%SERVICE%_%TARGET_PORT%\"",
			"tcpKeepalive: {probes: 3}",
			"proxyListenPort: "+pick(d, "15001", "15101"),
			"ingressSelector: ingress",
			"ingressControllerMode: "+pick(d, `"OFF"`, "DEFAULT", "STRICT"),
			"ingressClass: other",
			"defaultProviders: "+pick(
				d, "{}", "{accessLogging: [envoy], metrics: [prometheus]}", "{tracing: [zipkin], metrics: [prometheus]}",
			),
			"proxyHttpPort: "+pick(d, "0", "15002", "80"),
			"extensionProviders: [{name: zipkin, zipkin: {service: "+d.host()+", port: "+pick(d, "80", "9411")+"}}, "+
				"{name: otel, opentelemetry: {service: "+d.host()+", port: 80"+pick(d, "", ", dynatraceSampler: {tenant: t, clusterId: 1, "+
				"httpService: {service: "+d.host()+", port: 80, http: {path: /}}}")+"}}, "+
				"{name: als, envoyHttpAls: {service: "+d.host()+", port: 80}}]",
			"serviceSettings: [{settings: {clusterLocal: "+pick(d, "true", "false")+"}, hosts: ["+
				pick(d, `"*.shop.svc.cluster.local"`, "a.shop.svc.cluster.local", "b.bank.svc.cluster.local")+"]}]",
			"defaultConfig: {"+pick(d, "proxyMetadata: {FAIRWAY_LABEL_SERVICE_ACCOUNTS: "+pick(d, "shop/edge", "shop/web")+"}",
				"proxyMetadata: {FAIRWAY_OWNERSHIP: strict, FAIRWAY_GATEWAY_NAMESPACES: "+pick(d, "shop", "bank")+"}",
				"proxyMetadata: {FAIRWAY_GATEWAY_NAMESPACES: shop, FAIRWAY_NETWORK_GATEWAY_NAMESPACES: bank}",
				"proxyHeaders: {attemptCount: {disabled: true}, xForwardedPort: {enabled: true}}",
				"proxyHeaders: {preserveHttp1HeaderCase: true}", "connectionSettings: {profile: EDGE, httpMergeSlashes: false}",
				"connectionSettings: {httpIdleTimeout: 30s}",
				"tracing: {zipkin: {address: "+d.host()+":"+pick(d, "80", "9411")+"}, sampling: 10, maxPathTagLength: 50}")+"}",
		),
		"\n",
	) + "\n"
}

// networks draws mesh networks; empty: there are none.
func (d draw) networks() string {
	gateways := func() string {
		return pick(d, "[{address: 10.9.0.1, port: 15443}]", "[{address: 10.9.0.2, port: 443}, {address: 10.9.0.3, port: 15443}]", "[]")
	}
	return pick(
		d,
		"",
		"networks: {n1: {endpoints: [{fromCidr: 10.0.0.0/8}], gateways: "+gateways()+"}}\n",
		"networks: {n1: {endpoints: [{fromCidr: 10.0.0.2/32}], gateways: "+gateways()+
			"}, n2: {endpoints: [{fromRegistry: n2}], gateways: "+gateways()+"}}\n",
		"networks: {n2: {gateways: [{registryServiceName: a.shop.svc.cluster.local, port: 15443}, {address: gw.example.com, port: 1}]}}\n",
	)
}

// proxy draws one of few names; it comes back as another.
func (d draw) proxy() *proxy {
	name := pick(d, "p1", "p2", "p3", "p4", "p5", "p6")
	p := &proxy{
		Name:      name,
		Type:      "sidecar",
		Namespace: pick(d, namespaces[1:]...),
		Addresses: pick(d, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3,fd00::1", "10.7.0.1", "fd00::1"),
		SotW:      d.often(3),
		Forgets:   d.often(3),
		Prompt:    d.often(5),
		Locality:  pick(d, "", "r1/z1", "r1/z2", "r2/z1"),
	}
	p.Labels = pick(d, nil, map[string]string{"app": "a"}, map[string]string{"app": "b", "version": "v2"},
		map[string]string{"app": "a", "version": "v1"})
	if d.often(3) {
		p.Type, p.Addresses, p.Labels = "router", "10.7.0.9", pick(d, map[string]string{"istio": "ingress"},
			map[string]string{"istio": "ingress", "app": "a"}, map[string]string{"gateway.networking.k8s.io/gateway-name": "one"})
	}
	if d.often(4) {
		p.Account = pick(d, "web", "edge")
	}
	p.Metadata = pick(
		d,
		nil,
		nil,
		nil,
		map[string]string{"INTERCEPTION_MODE": "NONE"},
		map[string]string{"INTERCEPTION_MODE": "TPROXY"},
		map[string]string{"IDLE_TIMEOUT": "90s"},
		map[string]string{"DNS_CAPTURE": "true"},
		map[string]string{
			"DNS_CAPTURE":       "true",
			"DNS_AUTO_ALLOCATE": "true",
		},
		map[string]string{"HTTP10": "1"},
		map[string]string{"PROXY_CONFIG": `{}`},
		map[string]string{"PROXY_CONFIG": `{"gatewayTopology": {"numTrustedProxies": 1}, "proxyHeaders": {"server": {"disabled": true}}}`},
		map[string]string{"PROXY_CONFIG": `{"proxyHeaders": {"attemptCount": {"disabled": true}, "preserveHttp1HeaderCase": true}}`},
		map[string]string{"PROXY_CONFIG": `{"connectionSettings": {"httpDrainTimeout": "5s", "clusterPerConnectionBufferLimitBytes": 9000}}`},
		map[string]string{"PROXY_CONFIG": `{"tracing": {"sampling": 10, "maxPathTagLength": 50}}`},
		map[string]string{"PROXY_CONFIG": `{"proxyHeaders": {"xForwardedHost": {"enabled": true}, "requestId": {"disabled": true}}}`},
		map[string]string{"FAIRWAY_IDENTITY": "none"},
		map[string]string{"ENABLE_SELF_DISCOVERY": "true"},
		map[string]string{groupField: "one"},
		map[string]string{groupField: "two"},
		map[string]string{groupField: "three", "NETWORK": "n1"},
		map[string]string{"ENABLE_SELF_DISCOVERY": "true", "NETWORK": "n2"},
		map[string]string{"NETWORK": "n1"},
		map[string]string{"NETWORK": "n2"},
		map[string]string{"CLUSTER_ID": "east"},
		map[string]string{"CLUSTER_ID": "Kubernetes", "DNS_CAPTURE": "true"},
		map[string]string{"CLUSTER_ID": "west", "DNS_CAPTURE": "true"},
		map[string]string{"CLUSTER_ID": "west"},
		map[string]string{"NETWORK": "n2", "FAIRWAY_IDENTITY": "none"},
		map[string]string{"FAIRWAY_EXTENSIONS": "agent"},
		map[string]string{"FAIRWAY_EXTENSIONS": "agent", "CLUSTER_ID": "west"},
	)
	return p
}
