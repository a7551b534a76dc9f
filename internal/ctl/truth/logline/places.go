package logline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
	"fairway/internal/mesh"
)

// lookers look for the object behind a cause, by the place that the table names.
func lookers() map[string]func(*explainer, accesslog.Cause) {
	return map[string]func(*explainer, accesslog.Cause){
		"route":       (*explainer).noRoute,
		"listener":    (*explainer).noChain,
		"answer":      (*explainer).answered,
		"destination": (*explainer).noCluster,
		"endpoints":   (*explainer).noEndpoints,
		"policy":      (*explainer).denied,
		"token":       (*explainer).token,
		"authorizer":  (*explainer).authorizer,
		"timeout":     inRoute([]string{"timeout"}, "is over", "raise it, or make the service answer sooner"),
		"pertry":      inRoute([]string{"retries", "perTryTimeout"}, "is over for the last attempt", "raise it"),
		"retries":     inRoute([]string{"retries"}, "allows no further attempt", "repair why the attempts fail"),
		"fault":       inRoute([]string{"fault"}, "delays or aborts requests", "remove it if the test is over"),
		"cors":        inRoute([]string{"corsPolicy"}, "answers preflight requests", "add the origin to allowOrigins if it may ask"),
		"redirect":    inRoute([]string{"redirect"}, "redirects", "nothing is wrong"),
		"pool":        (*explainer).pool,
		"duration":    (*explainer).durations,
		"idle":        (*explainer).durations,
		"tls":         (*explainer).tls,
		"connect":     (*explainer).connect,
		"reset":       (*explainer).workload,
		"upstream":    (*explainer).protocol,
		"dns":         (*explainer).name,
		"ratelimit":   extension("EnvoyFilter"),
		"filter":      extension("WasmPlugin", "TrafficExtension", "EnvoyFilter"),
		"overload":    extension("EnvoyFilter"),
		"buffer":      extension("EnvoyFilter"),
		"health":      extension("EnvoyFilter"),
		"connection":  extension("EnvoyFilter"),
		"drop":        (*explainer).cluster,
		"cluster":     (*explainer).cluster,
	}
}

// madeFrom adds the objects that the proxy's resources on the way were made from, if nothing better is known.
func (x *explainer) madeFrom() {
	for _, stage := range []string{"virtual host", "cluster"} {
		for _, r := range x.madeOf(stage, "VirtualService", "DestinationRule", "ServiceEntry", "Service") {
			if len(x.out.Findings) == 3 {
				return
			}
			x.blame(r, "the "+stage+" on the way of the request was made from it", "")
		}
	}
}

// passed are the alternatives of a step that did not match, as words; at most a few.
func passed(s *page.RequestStep) string {
	const most = 4
	var out []string
	for i, p := range s.Passed {
		if i == most {
			out = append(out, "and "+strconv.Itoa(len(s.Passed)-i)+" more")
			break
		}
		part := p.Part
		if at := strings.Index(part, "routes["); at > 0 {
			part = part[at:] // without the virtual host
		}
		out = append(out, part+": "+p.Reason)
	}
	return strings.Join(out, "; ")
}

// extension returns a looker for the objects of some kinds that the listener was made from.
func extension(kinds ...string) func(*explainer, accesslog.Cause) {
	return func(x *explainer, c accesslog.Cause) {
		for _, stage := range []string{"listener", "virtual host", "cluster"} {
			for _, r := range x.madeOf(stage, kinds...) {
				r.field = "spec"
				x.blame(r, "it changes the "+stage+" on the way of the request", c.Right)
			}
		}
	}
}

// cluster adds the rules that made the cluster.
func (x *explainer) cluster(c accesslog.Cause) {
	for _, r := range x.madeOf("cluster", "DestinationRule", "EnvoyFilter") {
		r.field = "spec"
		x.blame(r, "the cluster was made from it", c.Right)
	}
}

// routeNumber matches the index of a route in the part of a step.
var routeNumber = regexp.MustCompile(`^routes\[([0-9]+)\]`)

// inRoute returns a looker for a field of the route's VirtualService.
func inRoute(path []string, means, right string) func(*explainer, accesslog.Cause) {
	return func(x *explainer, _ accesslog.Cause) {
		for _, r := range x.virtualServices() {
			o := x.object(r)
			if o == nil {
				continue
			}
			for _, i := range x.httpRoutes(o.Spec, path) {
				steps := []any{"http", i}
				for _, p := range path {
					steps = append(steps, p)
				}
				r.field = "spec.http[" + strconv.Itoa(i) + "]." + strings.Join(path, ".")
				x.blame(r, path[len(path)-1]+" "+brief(get(o.Spec, steps...))+" "+means, right)
			}
		}
	}
}

// virtualServices returns the VirtualServices for the host of the request, or of its virtual host.
func (x *explainer) virtualServices() (out []ref) {
	hosts := []string{x.host()}
	if s := x.step("virtual host"); s != nil {
		hosts = append(hosts, hostOf(s.Part))
	}
	if _, _, host, ok := x.target(); ok {
		hosts = append(hosts, host)
	}
	from := x.madeOf("virtual host", "VirtualService")
	objects := x.each("VirtualService", from)
	for _, host := range hosts {
		for _, o := range objects {
			r := ref{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
			if host != "" && (len(from) == 0 || slices.Contains(from, r)) && slices.ContainsFunc(list(o.Spec, "hosts"), func(h any) bool {
				rule, _ := h.(string)
				return names(rule, o.Namespace, host)
			}) {
				out = append(out, r)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return from
}

// hostOf returns the host in the name of a virtual host, such as "80/reviews.shop.svc.cluster.local:80".
func hostOf(part string) string {
	part = strings.Trim(part, `"`)
	if _, name, ok := strings.Cut(part, "/"); ok {
		part = name
	}
	host, _ := splitPort(part)
	return host
}

// httpRoutes returns which routes of a VirtualService have a field. If several have it, the route of the line decides as far as it is
// known: by its name, or by its number in the virtual host.
func (x *explainer) httpRoutes(spec any, path []string) (out []int) {
	steps := make([]any, len(path))
	for i, p := range path {
		steps[i] = p
	}
	var named []int
	numbered, number, sure := -1, x.routeIndex(), true
	at := 0
	for i, h := range list(spec, "http") {
		has := get(h, steps...) != nil
		if has {
			out = append(out, i)
		}
		if n := text(h, "name"); has && n != "" && (n == x.e.Route || strings.HasPrefix(x.e.Route, n+".")) {
			named = append(named, i)
		}
		sure = sure && get(h, "delegate") == nil
		n := max(1, len(list(h, "match")))
		if number >= at && number < at+n && sure {
			numbered = i
		}
		at += n
	}
	switch {
	case len(out) <= 1:
		return out
	case len(named) > 0:
		return named
	case numbered >= 0 && slices.Contains(out, numbered):
		return []int{numbered}
	}
	return out
}

// routeIndex returns the number of the route in its virtual host; -1: it is not known.
func (x *explainer) routeIndex() int {
	s := x.step("route")
	if s == nil {
		return -1
	}
	for word := range strings.FieldsSeq(s.Part) {
		if m := routeNumber.FindStringSubmatch(word); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				return n
			}
		}
	}
	return -1
}

// target is the cluster of the line, or of the replay.
func (x *explainer) target() (port, subset, host string, ok bool) {
	for _, name := range []string{x.e.Cluster, x.clusterOfWay()} {
		if direction, port, subset, host, ok := mesh.ClusterParts(name); ok && direction == "outbound" {
			return port, subset, host, true
		}
	}
	return "", "", "", false
}

func (x *explainer) clusterOfWay() string {
	if x.way == nil {
		return ""
	}
	if x.way.Outcome.Cluster != "" {
		return x.way.Outcome.Cluster
	}
	if s := x.step("cluster"); s != nil {
		for _, part := range strings.Split(s.Resource+`"`+s.Decision, `"`) {
			if _, _, _, _, ok := mesh.ClusterParts(part); ok {
				return part
			}
		}
	}
	return ""
}
