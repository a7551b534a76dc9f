package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// call is one request, or connection, of the soak, with the properties that rules match.
type call struct {
	from string // "web", the workload beside the client's sidecar; "edge", a gateway; "", nobody of the mesh
	path string
	user string // header x-user
	tcp  bool
	// token is the request's token: "good", "bad" or nothing; proved is set if it is good and a server checks it.
	token  string
	proved bool
}

// looked is the call where tokens are looked at, or are not.
func (c call) looked(at bool) call {
	c.proved = at && c.token == "good"
	return c
}

// routing is what a VirtualService says of soak.test, or of a gateway's host.
type routing struct {
	stamp     int    // answers have it in a header; 0: there is no VirtualService
	ann, rest string // subset of requests of user ann, and of all others: "v1", "v2", "both" by weights, "" no subset
	abort     bool   // requests of /abort are answered 418
	attempts  int    // of retries; -1: the usual
	share     int    // of v1, where it is both, of 100
}

// aborted reports whether a call is answered by the rule itself.
func (r routing) aborted(c call) bool { return r.stamp != 0 && r.abort && !c.tcp && c.path == "/abort" }

// goes reports whether a call may reach a backend of a version.
func (r routing) goes(c call, version string) bool {
	subset := r.rest
	if c.user == "ann" && !c.tcp {
		subset = r.ann
	}
	switch {
	case r.stamp == 0 || subset == "":
		return true
	case subset == "both":
		return version == "v1" && r.share > 0 || version == "v2" && r.share < 100
	}
	return subset == version
}

// subsets reports whether it needs the DestinationRule.
func (r routing) subsets() bool { return r.stamp != 0 && r.ann+r.rest != "" }

// destinations are those of a subset at a port, as a list's items.
func (r routing) destinations(subset string, port int) string {
	one := func(subset string, more string) string {
		if subset != "" {
			subset = ", subset: " + subset
		}
		return fmt.Sprintf("{destination: {host: soak.test, port: {number: %d}%s}%s}", port, subset, more)
	}
	if subset != "both" {
		return one(subset, "")
	}
	return one("v1", fmt.Sprintf(", weight: %d", r.share)) + ", " + one("v2", fmt.Sprintf(", weight: %d", 100-r.share))
}

// http are its routes, as a list's items.
func (r routing) http(header string) string {
	route := func(match, subset, more string) string {
		if r.attempts >= 0 {
			more += fmt.Sprintf(", retries: {attempts: %d}", r.attempts)
		}
		return fmt.Sprintf(
			`{%sroute: [%s], headers: {response: {set: {%s: "%d"}}}%s}`, match, r.destinations(subset, 8000), header, r.stamp, more,
		)
	}
	var all []string
	if r.abort {
		const fault = ", fault: {abort: {httpStatus: 418, percentage: {value: 100}}}"
		all = append(all, route("match: [{uri: {exact: /abort}}], ", r.rest, fault))
	}
	if r.ann != r.rest {
		all = append(all, route("match: [{headers: {x-user: {exact: ann}}}], ", r.ann, ""))
	}
	return strings.Join(append(all, route("", r.rest, "")), ", ")
}

// rule is a rule of an AuthorizationPolicy, and the calls that it matches.
type rule struct {
	text  string
	http  bool // it asks for what only requests have
	match func(call) bool
}

var ruleForms = []rule{
	{"{to: [{operation: {paths: [/admin]}}]}", true, func(c call) bool { return c.path == "/admin" }},
	{`{to: [{operation: {notPaths: [/admin, "/abort*"]}}]}`, true, func(c call) bool { return c.path != "/admin" && c.path != "/abort" }},
	{`{when: [{key: "request.headers[x-user]", values: [bob]}]}`, true, func(c call) bool { return c.user == "bob" }},
	{`{when: [{key: "request.headers[x-user]", values: [ann, bob]}]}`, true, func(c call) bool { return c.user != "" }},
	{"{from: [{source: {principals: [cluster.local/ns/default/sa/web]}}]}", false, func(c call) bool { return c.from == "web" }},
	{"{from: [{source: {principals: [cluster.local/ns/default/sa/edge]}}]}", false, func(c call) bool { return c.from == "edge" }},
	{`{from: [{source: {notPrincipals: ["*"]}}]}`, false, func(c call) bool { return c.from == "" }},
	{`{from: [{source: {requestPrincipals: ["*"]}}]}`, true, func(c call) bool { return c.proved }},
	{`{from: [{source: {notRequestPrincipals: ["*"]}}], to: [{operation: {paths: [/admin]}}]}`, true, func(c call) bool {
		return !c.proved && c.path == "/admin"
	}},
	{`{to: [{operation: {ports: ["9000"]}}]}`, false, func(c call) bool { return c.tcp }},
	{`{to: [{operation: {ports: ["8080"]}}]}`, false, func(c call) bool { return !c.tcp }},
	{
		"{from: [{source: {namespaces: [default]}}], to: [{operation: {paths: [/admin]}}]}", true,
		func(c call) bool { return c.from != "" && c.path == "/admin" },
	},
}

// policy is an AuthorizationPolicy of the servers; the zero value is none.
type policy struct {
	action string // ALLOW or DENY
	rules  []rule
}

// matches reports whether one of the policy's rules matches a call. For a TCP call, a rule with HTTP conditions never matches in an ALLOW
// policy, and always in a DENY policy.
func (p policy) matches(c call) bool {
	for _, r := range p.rules {
		if c.tcp && r.http {
			if p.action == "DENY" {
				return true
			}
			continue
		}
		if r.match(c) {
			return true
		}
	}
	return false
}

func (p policy) text() string {
	var all []string
	for _, r := range p.rules {
		all = append(all, r.text)
	}
	return strings.Join(all, ", ")
}

// policies are those in force together.
type policies [2]policy

// allow reports whether they let a call in.
func (all policies) allow(c call) bool {
	asked, allowed := false, false
	for _, p := range all {
		switch p.action {
		case "DENY":
			if p.matches(c) {
				return false
			}
		case "ALLOW":
			asked = true
			allowed = allowed || p.matches(c)
		}
	}
	return allowed || !asked
}

// version is one version of a part of the rules, from the time when it was applied to the time when all proxies had its successor.
type version[T any] struct {
	is         T
	from, over time.Time // over is zero while it is in force
}

// line is the history of one part of the rules.
type line[T any] struct {
	mu  sync.Mutex
	all []version[T]
}

// next is handed over now.
func (l *line[T]) next(is T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, version[T]{is: is, from: time.Now()})
}

// last is the youngest.
func (l *line[T]) last() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[len(l.all)-1].is
}

// settle says that all proxies have the youngest now.
func (l *line[T]) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for i := len(l.all) - 2; i >= 0 && l.all[i].over.IsZero(); i-- {
		l.all[i].over = now
	}
}

// during returns the versions that may have been in force between two times; a version that all proxies have replaced counts for slack
// longer.
func (l *line[T]) during(start, end time.Time, slack time.Duration) (out []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.all) - 1; i >= 0; i-- {
		v := l.all[i]
		if !v.over.IsZero() && v.over.Add(slack).Before(start) {
			break
		}
		if !v.from.After(end) {
			out = append(out, v.is)
		}
	}
	return out
}

// ago is what the line was around a time, for people.
func (l *line[T]) ago(at time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out strings.Builder
	for _, v := range l.all[max(0, len(l.all)-6):] {
		over := "…"
		if !v.over.IsZero() {
			over = v.over.Sub(at).Round(time.Millisecond).String()
		}
		fmt.Fprintf(&out, "\n      %s to %s: %+v", v.from.Sub(at).Round(time.Millisecond), over, v.is)
	}
	return out.String()
}

// String is for people: functions have no text.
func (r rule) String() string { return r.text }

func (p policy) String() string { return p.action + p.text() }

// pickOf is one of several.
func pickOf[T any](d *rand.Rand, from ...T) T { return from[d.IntN(len(from))] }

// drawRouting draws one with a stamp of its own.
func drawRouting(d *rand.Rand, stamp int) routing {
	form := func() string { return pickOf(d, "", "v1", "v2", "both", "both") }
	r := routing{
		stamp: stamp, rest: form(), abort: d.IntN(3) == 0, attempts: pickOf(d, -1, -1, -1, 0, 3), share: pickOf(d, 0, 1, 20, 50, 99, 100),
	}
	r.ann = r.rest
	if d.IntN(2) == 0 {
		r.ann = form()
	}
	return r
}

// drawPolicy draws one, or none.
func drawPolicy(d *rand.Rand) policy {
	p := policy{action: pickOf(d, "", "ALLOW", "DENY", "DENY")}
	if p.action == "" {
		return p
	}
	for range 1 + d.IntN(2) {
		p.rules = append(p.rules, pickOf(d, ruleForms...))
	}
	if p.action == "ALLOW" && d.IntN(3) > 0 { // most callers are let in most of the time
		p.rules = append(p.rules, ruleForms[1], ruleForms[4])
	}
	return p
}

// soakIdle is how long a proxy keeps a connection to a server that it does not use.
const soakIdle = time.Second

// drawTrafficPolicy draws settings that fail no request.
func drawTrafficPolicy(d *rand.Rand) string {
	pool := pickOf(d, "", "", ", maxRetries: 100", ", h2UpgradePolicy: UPGRADE", ", maxRequestsPerConnection: 3",
		fmt.Sprintf(", http2MaxRequests: %d", 1000+d.IntN(100)),
		fmt.Sprintf(", http1MaxPendingRequests: %d}, tcp: {maxConnections: %d", 900+d.IntN(100), 1000+d.IntN(100)))
	return fmt.Sprintf("connectionPool: {http: {idleTimeout: %s%s}}", soakIdle, pool) + pickOf(d, "",
		", loadBalancer: {simple: ROUND_ROBIN}", ", loadBalancer: {simple: RANDOM}",
		", loadBalancer: {consistentHash: {httpHeaderName: x-user}}", ", outlierDetection: {consecutive5xxErrors: 1000}")
}
