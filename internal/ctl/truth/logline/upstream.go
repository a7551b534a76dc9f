package logline

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
)

// rules returns the DestinationRules of the cluster of the line.
func (x *explainer) rules() []page.ObjectInfo {
	_, _, host, ok := x.target()
	if !ok {
		return nil
	}
	from := x.madeOf("cluster", "DestinationRule")
	var out []page.ObjectInfo
	for _, o := range x.each("DestinationRule", from) {
		if names(text(o.Spec, "host"), o.Namespace, host) &&
			(len(from) == 0 || slices.Contains(from, ref{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})) {
			out = append(out, o)
		}
	}
	return out
}

// policies returns the fields of a DestinationRule with a part of a traffic policy that the line's cluster has.
func policies(spec any, subset string, part ...any) (out []string) {
	add := func(field string, policy any) {
		if get(policy, part...) != nil {
			for _, p := range part {
				field += fmt.Sprintf(".%v", p)
			}
			out = append(out, field)
		}
	}
	for i, s := range list(spec, "subsets") {
		if text(s, "name") == subset && subset != "" {
			add(fmt.Sprintf("spec.subsets[%d].trafficPolicy", i), get(s, "trafficPolicy"))
		}
	}
	for i, s := range list(spec, "trafficPolicy", "portLevelSettings") {
		add(fmt.Sprintf("spec.trafficPolicy.portLevelSettings[%d]", i), s)
	}
	add("spec.trafficPolicy", get(spec, "trafficPolicy"))
	return out
}

// blamePolicy adds the parts of traffic policies of the line's cluster.
func (x *explainer) blamePolicy(means, right string, part ...any) {
	_, subset, _, _ := x.target()
	for _, o := range x.rules() {
		for _, field := range policies(o.Spec, subset, part...) {
			x.blame(ref{o.Kind, o.Namespace, o.Name, field}, means+": "+brief(valueOf(o.Spec, field)), right)
		}
	}
}

// valueOf returns the value of a field such as spec.subsets[0].trafficPolicy.
func valueOf(spec any, field string) any {
	for part := range strings.SplitSeq(strings.TrimPrefix(field, "spec."), ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		spec = get(spec, name)
		if n, err := strconv.Atoi(index); indexed && err == nil {
			spec = get(spec, n)
		}
	}
	return spec
}

// noEndpoints looks why no endpoint of a cluster may be picked.
func (x *explainer) noEndpoints(accesslog.Cause) {
	_, subset, host, ok := x.target()
	if !ok {
		return
	}
	all := x.endpoints(host)
	var healthy, fitting []page.EndpointInfo
	labels := map[string]any{}
	var rule ref
	for _, o := range x.rules() {
		for i, s := range list(o.Spec, "subsets") {
			if text(s, "name") == subset && subset != "" {
				rule = ref{o.Kind, o.Namespace, o.Name, fmt.Sprintf("spec.subsets[%d]", i)}
				labels, _ = get(s, "labels").(map[string]any)
			}
		}
	}
	for _, e := range all {
		if !selects(labels, e.Labels) {
			continue
		}
		if fitting = append(fitting, e); e.Health == "HEALTHY" {
			healthy = append(healthy, e)
		}
	}
	switch {
	case len(all) == 0:
		if s := x.service(host); s != nil {
			x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, "spec.endpoints"}, "the service has no endpoint",
				"start a workload that its selector selects, or write endpoints")
		}
	case len(fitting) == 0:
		x.blame(rule, fmt.Sprintf("no endpoint of %s has the labels %s of subset %q; endpoints have %s", host, brief(labels), subset,
			labelSets(all)), "write labels that an endpoint has, or label the workloads so")
	case len(healthy) == 0:
		means := fmt.Sprintf("none of the %d endpoints is healthy: %s", len(fitting), states(fitting))
		if s := x.service(host); s != nil {
			x.blame(ref{Kind: s.Object.Kind, Namespace: s.Object.Namespace, Name: s.Object.Name}, means, "heal the workloads")
		}
	default:
		x.blamePolicy(
			fmt.Sprintf("%d endpoints are healthy for the control plane, so the proxy itself has ejected them, or panics", len(healthy)),
			"let it eject fewer (maxEjectionPercent, baseEjectionTime), or repair the errors of the workload", "outlierDetection")
		if len(x.out.Findings) == 0 {
			x.note(fmt.Sprintf("%s has %d healthy endpoints now: they came since, or the proxy ejected them", host, len(healthy)))
		}
	}
}

// endpoints returns the endpoints of a host, of all registries.
func (x *explainer) endpoints(host string) (out []page.EndpointInfo) {
	var all []page.ServiceEndpoints
	x.failed("the endpoints are not known", x.fetch(x.ctx, "/debug/endpointz", url.Values{"host": {host}}, &all))
	for _, s := range all {
		if name, _, _ := strings.Cut(s.Service, " "); name == host {
			out = append(out, s.Endpoints...)
		}
	}
	return out
}

// selects reports whether labels, written "a=b,c=d", have all that a subset wants.
func selects(want map[string]any, labels string) bool {
	have := strings.Split(labels, ",")
	for k, v := range want {
		if !slices.Contains(have, k+"="+fmt.Sprint(v)) {
			return false
		}
	}
	return true
}

// labelSets returns the different labels of endpoints, at most a few.
func labelSets(all []page.EndpointInfo) string {
	var out []string
	for _, e := range all {
		if s := "{" + e.Labels + "}"; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	sort.Strings(out)
	if len(out) > 4 {
		out = append(out[:4], "…")
	}
	return strings.Join(out, " ")
}

// states returns the endpoints with their health, at most a few.
func states(all []page.EndpointInfo) string {
	var out []string
	for _, e := range all {
		out = append(out, e.Address+" "+e.Health)
	}
	if len(out) > 4 {
		out = append(out[:4], "…")
	}
	return strings.Join(out, ", ")
}

// pool looks for the limits of the cluster. At the server's side they are those of DestinationRules or of the workload's Sidecar.
func (x *explainer) pool(c accesslog.Cause) {
	const means = "the limit of connections or requests is reached"
	x.blamePolicy(means, c.Right, "connectionPool")
	if len(x.out.Findings) > 0 {
		return
	}
	for _, r := range x.madeOf("cluster", "DestinationRule", "Sidecar") {
		o := x.object(r)
		if o == nil {
			continue
		}
		for _, field := range []string{"spec.trafficPolicy.connectionPool", "spec.inboundConnectionPool"} {
			if v := valueOf(o.Spec, field); v != nil {
				r.field = field
				x.blame(r, means+": "+brief(v), c.Right)
			}
		}
	}
}

// durations looks for idle timeouts and longest durations.
func (x *explainer) durations(c accesslog.Cause) {
	for _, part := range [][]any{
		{"connectionPool", "http", "idleTimeout"}, {"connectionPool", "tcp", "idleTimeout"},
		{"connectionPool", "tcp", "maxConnectionDuration"},
	} {
		if idle := part[len(part)-1] == "idleTimeout"; idle == (c.Place == "idle") {
			x.blamePolicy("it is over", c.Right, part...)
		}
	}
	extension("EnvoyFilter")(x, c)
}

// tls looks for the TLS settings of both sides.
func (x *explainer) tls(c accesslog.Cause) {
	_, subset, _, _ := x.target()
	for _, o := range x.rules() {
		for _, field := range policies(o.Spec, subset, "tls") {
			mode := cmp.Or(text(valueOf(o.Spec, field), "mode"), "DISABLE")
			x.blame(ref{o.Kind, o.Namespace, o.Name, field}, c.Means+" The client's proxy goes by mode "+mode, c.Right)
		}
	}
	_, _, host, ok := x.target()
	if !ok {
		return
	}
	s := x.service(host)
	for _, o := range x.all("PeerAuthentication") {
		if s == nil || s.External || o.Namespace != s.Namespace && o.Namespace != rootNamespace {
			continue
		}
		labels, _ := get(o.Spec, "selector", "matchLabels").(map[string]any)
		if slices.ContainsFunc(x.endpoints(host), func(e page.EndpointInfo) bool { return selects(labels, e.Labels) }) {
			x.blame(ref{o.Kind, o.Namespace, o.Name, "spec.mtls"},
				"servers of the namespace take "+cmp.Or(text(o.Spec, "mtls", "mode"), "PERMISSIVE"), c.Right)
		}
	}
	if len(x.out.Findings) == 0 {
		x.connect(c)
	}
}

// rootNamespace has the mesh-wide policies by default.
const rootNamespace = "istio-system"

// connect looks for the object with the endpoint's address and port.
func (x *explainer) connect(c accesslog.Cause) {
	if _, _, host, ok := x.target(); ok {
		if s := x.service(host); s != nil {
			means := "the service's endpoint does not take the connection"
			if x.e.UpstreamHost != "" {
				means = "its endpoint " + x.e.UpstreamHost + " does not take the connection"
			}
			x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, "spec.ports"}, means, c.Right)
		}
		return
	}
	if x.inbound() {
		means := "the workload beside the proxy does not take the connection"
		if x.e.UpstreamHost != "" {
			means += " to " + x.e.UpstreamHost
		}
		x.add(Finding{Means: means, Right: "let it listen at this port, at its own address or 127.0.0.1"})
	}
}

// workload looks which workload ended the connection.
func (x *explainer) workload(c accesslog.Cause) {
	_, _, host, ok := x.target()
	switch {
	case ok:
		s := x.service(host)
		if s == nil {
			return
		}
		means := "its endpoint ended the connection"
		if x.e.UpstreamHost != "" {
			means = "its endpoint " + x.e.UpstreamHost + " ended the connection"
		}
		x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, "spec.endpoints"}, means, c.Right)
	case x.inbound():
		x.add(Finding{Means: "the workload beside the proxy ended the connection", Right: c.Right})
	}
}

// protocol looks for the protocol of the service's port.
func (x *explainer) protocol(c accesslog.Cause) {
	port, _, host, ok := x.target()
	if !ok {
		x.workload(c)
		return
	}
	s := x.service(host)
	if s == nil {
		return
	}
	for i, p := range s.Ports {
		if strconv.Itoa(int(p.Port)) == port {
			x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, fmt.Sprintf("spec.ports[%d]", i)},
				fmt.Sprintf("port %s has protocol %s, and the answer is not one of it", port, p.Protocol), c.Right)
		}
	}
}

// name looks for the host name that cannot be resolved.
func (x *explainer) name(c accesslog.Cause) {
	_, _, host, ok := x.target()
	if !ok {
		x.unknownHost()
		return
	}
	if s := x.service(host); s != nil {
		x.blame(ref{s.Object.Kind, s.Object.Namespace, s.Object.Name, "spec.endpoints"},
			fmt.Sprintf("%s is resolved by the proxy (%s)", host, s.Resolution), c.Right)
	}
}
