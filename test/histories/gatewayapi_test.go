package histories

import (
	"fmt"
	"strings"

	"fairway/internal/config"
)

// apiGateway is the Gateway of the Gateway API.
const apiGateway = string(config.KubernetesGateway)

func (d draw) gatewayClass() string {
	return "controllerName: " + pick(d, "istio.io/gateway-controller", "fairway/gateway-controller", "example.com/other",
		"fairway/unmanaged-gateway") + pick(d, "", "", ", "+d.parametersRef(", namespace: "+pick(d, namespaces...)))
}

// parametersRef draws a reference to the parameters of a deployment.
func (d draw) parametersRef(namespace string) string {
	return "parametersRef: {group: " + pick(d, `""`, `""`, `""`, "example.com") + ", kind: ConfigMap, name: " +
		pick(d, "one", "two", "three") + namespace + "}"
}

// parameters draws the value of a key of such a ConfigMap.
func (d draw) parameters() string {
	return pick(d, `deployment: "spec: {replicas: 2}"`, `deployment: "spec: {replicas: two}"`,
		`deployment: "spec: {template: {spec: {hostNetwork: true}}}"`, `horizontalPodAutoscaler: "spec: {maxReplicas: 3}"`,
		`podDisruptionBudget: "spec: {minAvailable: 1}", service: "spec: {externalTrafficPolicy: Local}"`, `serviceAccount: "{"`)
}

// deployment draws the addresses of a Gateway, and its infrastructure.
func (d draw) deployment() string {
	return pick(d, "", "", ", infrastructure: {"+d.parametersRef("")+pick(d, "", ", labels: {team: front}")+"}") +
		pick(d, "", "", ", addresses: [{type: IPAddress, value: 192.0.2.7}]",
			", addresses: [{type: Hostname, value: a.shop.svc.cluster.local}]")
}

// listener draws one that a Gateway or a ListenerSet has.
func (d draw) listener(name string, port int) string {
	protocol := pick(d, "protocol: HTTP", "protocol: HTTP", "protocol: HTTP", "protocol: TCP",
		"protocol: HTTPS, tls: {certificateRefs: [{name: one}"+pick(d, "", ", {name: two, namespace: bank}")+"]}",
		"protocol: TLS, tls: {mode: Passthrough}", "protocol: TLS, tls: {certificateRefs: [{name: one}]}", "protocol: UDP")
	host := pick(d, "", `, hostname: "*.example.com"`, ", hostname: x.example.com")
	if protocol == "protocol: TCP" || protocol == "protocol: UDP" {
		host = ""
	}
	return fmt.Sprintf("{name: %s, port: %d, %s%s, allowedRoutes: {namespaces: {%s}%s}}", name, port, protocol, host,
		pick(d, "from: All", "from: All", "from: Same", "from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: shop}}"),
		pick(d, "", "", ", kinds: [{kind: HTTPRoute}, {kind: TCPRoute}, {kind: UDPRoute}]"))
}

func (d draw) apiGateway() string {
	out := "gatewayClassName: " + pick(d, "istio", "istio", "fairway", "one", "istio-remote") + d.deployment() + ", listeners: ["
	var all []string
	for i, name := range some(d, "web", "more", "secure", "wide") {
		all = append(all, d.listener(name, []int{80, 8080, 443, 8443}[i]))
	}
	return out + strings.Join(all, ", ") + "]" + pick(d, "", ", allowedListeners: {namespaces: {from: All}}") + d.gatewayTLS()
}

// gatewayTLS draws a Gateway's own certificate for backends, and how it verifies clients.
func (d draw) gatewayTLS() string {
	validation := func() string {
		if d.often(4) {
			return ""
		}
		refs := some(d, `{group: "", kind: ConfigMap, name: one}`, `{group: "", kind: ConfigMap, name: two, namespace: bank}`,
			`{group: "", kind: Secret, name: one}`)
		return "validation: {" + pick(d, "", "", "mode: AllowInsecureFallback, ") + "caCertificateRefs: " + list(refs) + "}"
	}
	var parts []string
	if d.often(3) {
		parts = append(parts, "backend: {clientCertificateRef: {"+pick(d, "name: one", "name: two, namespace: bank")+"}}")
	}
	if d.often(2) {
		parts = append(parts, "frontend: {default: {"+validation()+"}"+
			pick(d, "", ", perPort: [{port: 443, tls: {"+validation()+"}}]")+"}")
	}
	if len(parts) == 0 {
		return ""
	}
	return ", tls: {" + strings.Join(parts, ", ") + "}"
}

func (d draw) listenerSet() string {
	return "parentRef: {name: one, namespace: " + pick(d, namespaces...) + "}, listeners: " +
		list([]string{d.listener("set", pick(d, 80, 81, 443))})
}

// bound draws the beginning of a route.
func (d draw) bound() string {
	section := pick(d, "", "", ", sectionName: web", ", port: 80")
	return "parentRefs: [{name: one, namespace: " + pick(d, namespaces...) + section + "}" +
		pick(d, "", "", ", {kind: ListenerSet, name: one, namespace: "+pick(d, namespaces...)+"}") +
		pick(d, "", "", ", "+d.ofClients()+pick(d, "", ", "+d.ofClients())) + "]"
}

// ofClients draws a reference to a service for whose clients a route is.
func (d draw) ofClients() string {
	return pick(d, `{group: "", kind: Service, name: `+pick(d, "a", "b"), "{group: networking.istio.io, kind: ServiceEntry, name: one") +
		", namespace: " + pick(d, namespaces[1:]...) + pick(d, "", ", port: 80", ", port: 81") + "}"
}

func (d draw) hostnames() string {
	return pick(d, "", "", ", hostnames: [x.example.com]", `, hostnames: ["*.example.com"]`, ", hostnames: [y.example.com, x.example.com]")
}

func (d draw) backend() string {
	return "{name: " + pick(d, "a", "b") + ", namespace: " + pick(d, namespaces[1:]...) + fmt.Sprintf(", port: %d", pick(d, 80, 81)) +
		pick(d, "", ", weight: 3", ", weight: 0") + "}"
}

func (d draw) httpRoute() string {
	var rules []string
	for range 1 + d.IntN(3) {
		match := pick(d, "", "matches: [{path: {value: /a}}], ", "matches: [{path: {type: Exact, value: /b}}, {method: POST}], ",
			"matches: [{headers: [{name: x, value: y}]}], ")
		then := pick(d, "", "", "filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]",
			"filters: [{type: ExtensionRef, extensionRef: {group: example.com, kind: X, name: x}}]",
			"filters: [{type: URLRewrite, urlRewrite: {hostname: in.example.com}}]", "filters: ["+d.externalAuth()+"]",
			"filters: ["+d.externalAuth()+", {type: RequestRedirect, requestRedirect: {scheme: https}}]",
			"sessionPersistence: "+d.sessions())
		if !strings.Contains(then, "Redirect") && d.often(3) {
			then = strings.TrimPrefix(then+", backendRefs: "+list([]string{d.poolRef(), pick(d, d.poolRef(), d.backend())}), ", ")
		} else if !strings.Contains(then, "Redirect") {
			rewritten := strings.TrimSuffix(d.backend(), "}") + pick(d, "", "",
				", filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /x}}}]",
				", filters: ["+d.externalAuth()+"]") + "}"
			then = strings.TrimPrefix(then+", backendRefs: "+list([]string{rewritten, d.backend()}), ", ")
		}
		rules = append(rules, "{"+match+then+pick(d, "", ", timeouts: {request: 3s, backendRequest: 1s}")+"}")
	}
	return d.bound() + d.hostnames() + ", rules: " + list(rules)
}

// externalAuth draws a filter that asks an authorizer.
func (d draw) externalAuth() string {
	return "{type: ExternalAuth, externalAuth: {backendRef: " + pick(d, "{name: a, port: 80}", "{name: b, namespace: bank, port: 80}") +
		pick(d, ", protocol: HTTP, http: {}", ", protocol: HTTP, http: {path: /check, allowedHeaders: [x]}, forwardBody: {maxSize: 10}",
			", protocol: GRPC, grpc: {}") + "}}"
}

// sessions draws how the requests of a client stay at one endpoint.
func (d draw) sessions() string {
	return "{" + pick(d, "cookie: {}", "absoluteTimeout: 1h, cookie: {name: kept, path: /a, lifetimeType: Permanent}",
		"type: Header, header: {name: x-session}", "type: Header, header: {name: x-session}, absoluteTimeout: 1h") + "}"
}

// poolRef draws a reference to an InferencePool.
func (d draw) poolRef() string {
	return "{group: inference.networking.k8s.io, kind: InferencePool, name: " + pick(d, "one", "two") +
		pick(d, "", ", namespace: "+pick(d, namespaces[1:]...)) + pick(d, "", ", weight: 3", ", weight: 0") + "}"
}

func (d draw) inferencePool() string {
	picker := fmt.Sprintf(", endpointPickerRef: {name: %s, port: {number: %d}%s}", pick(d, "a", "b"), pick(d, 80, 81),
		pick(d, "", ", failureMode: FailOpen", ", failureMode: FailClose"))
	return "selector: {matchLabels: {" + d.labels() + "}}, targetPorts: " +
		pick(d, "[{number: 8080}]", "[{number: 8080}, {number: 8081}]") + pick(d, "", "", ", appProtocol: kubernetes.io/h2c") +
		pick(d, picker, picker, picker, "", ", endpointPickerRef: {group: example.com, kind: Picker, name: a}")
}

func (d draw) grpcRoute() string {
	method := pick(d, "service: echo.Echo", "method: Say")
	return d.bound() + d.hostnames() + ", rules: [{matches: [{method: {" + method + "}}], backendRefs: " +
		list([]string{d.backend()}) + pick(d, "", "", ", sessionPersistence: "+d.sessions()) + "}]"
}

func (d draw) tlsRoute() string {
	return d.bound() + ", hostnames: [" + pick(d, "x.example.com", `"*.example.com"`) + "], rules: [{backendRefs: " +
		list([]string{d.backend()}) + "}]"
}

func (d draw) tcpRoute() string {
	return d.bound() + ", rules: [{backendRefs: " + list([]string{d.backend(), d.backend()}) + "}]"
}

func (d draw) udpRoute() string {
	return d.bound() + ", rules: [{backendRefs: " + list([]string{d.backend(), d.backend()}) + "}]"
}

func (d draw) referenceGrant() string {
	return "from: [{group: gateway.networking.k8s.io, kind: " + pick(d, "HTTPRoute", apiGateway[:7], "TCPRoute", "UDPRoute") +
		", namespace: " + pick(d, namespaces...) + "}], to: [{" + pick(d, `group: "", kind: Service`, `group: "", kind: Service, name: a`,
		`group: "", kind: Secret`, `group: "", kind: ConfigMap`, "group: inference.networking.k8s.io, kind: InferencePool") + "}]"
}

func (d draw) backendTLSPolicy() string {
	target := func(name string) string {
		return `{group: "", kind: Service, name: ` + name + pick(d, "", "", ", sectionName: http", ", sectionName: tcp") + "}"
	}
	targets := []string{target(pick(d, "a", "b"))}
	if d.often(4) {
		targets = []string{target("a"), target("b")}
	}
	var maps []string
	for _, name := range some(d, "one", "two", "three") {
		maps = append(maps, "{group: "+pick(d, `""`, `""`, `""`, "example.com")+", kind: ConfigMap, name: "+name+"}")
	}
	trust := "wellKnownCACertificates: " + pick(d, "System", "System", "example.com/all")
	if len(maps) > 0 {
		trust = "caCertificateRefs: " + list(maps)
	}
	return "targetRefs: " + list(targets) + ", validation: {hostname: " + pick(d, "x.example.com", "y.example.com") + ", " + trust +
		pick(d, "", "", ", subjectAltNames: [{type: Hostname, hostname: z.example.com}]",
			`, subjectAltNames: [{type: URI, uri: "spiffe://td/ns/shop/sa/x"}]`) + "}"
}
