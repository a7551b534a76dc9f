package route

import (
	"fmt"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// idle notes routes for requests, with their faults, that no request comes to, because the ports of the hosts carry something else. It is
// known only of rules for sidecars alone, and if the services of all hosts are known.
func (c *checker) idle() {
	if len(c.rule.Spec.GetHttp()) == 0 || c.behindGateway() {
		return
	}
	var ports []mesh.Port
	for _, h := range c.rule.Spec.GetHosts() {
		seen := c.view(c.t.sc.FullHost(h, c.rule.Namespace))
		if seen == nil || seen.Service == nil || len(seen.Service.Ports) == 0 {
			return
		}
		ports = append(ports, seen.Service.Ports...)
	}
	if len(ports) == 0 {
		return // a delegate has no hosts of its own
	}
	requests := func(p mesh.Port) bool { return p.Protocol.MayBeHTTP() || p.Protocol == mesh.Dubbo }
	if !slices.ContainsFunc(ports, requests) {
		c.note(mesh.Problem{
			Field: "spec.http", Code: code.Unused, Severity: mesh.Warning,
			Message: "the routes, with their faults and retries, do nothing: " + carried(ports),
			Fix:     forRequests(ports),
		})
		return
	}
	for i, route := range c.rule.Spec.GetHttp() {
		for j, m := range route.GetMatch() {
			on := slices.DeleteFunc(slices.Clone(ports), func(p mesh.Port) bool { return p.Number != m.GetPort() })
			if len(on) > 0 && !slices.ContainsFunc(on, requests) {
				c.note(mesh.Problem{
					Field: fmt.Sprintf("spec.http[%d].match[%d].port", i, j), Code: code.Unused, Severity: mesh.Warning,
					Message: "the match takes no request: " + carried(on),
					Fix:     forRequests(on),
				})
			}
		}
	}
}

// carried says what the first ports carry.
func carried(ports []mesh.Port) string {
	var out []string
	for _, p := range ports {
		if text := fmt.Sprintf("port %d carries %v", p.Number, p.Protocol); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out[:min(len(out), 3)], ", ") + ", not HTTP that proxies can read"
}

// forRequests says how routes for connections are written instead, or how the port becomes one for requests.
func forRequests(ports []mesh.Port) string {
	if slices.ContainsFunc(ports, func(p mesh.Port) bool { return p.Protocol.IsTLS() }) {
		return "write tls routes; or, if the port carries plain HTTP, name it http-… or set its appProtocol"
	}
	return "write tcp routes; or, if the port carries HTTP, name it http-… or set its appProtocol"
}
