package envoy

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/mesh"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

var (
	soakTime = flag.Duration("soak", time.Minute, "how long TestSoak edits")
	soakSeed = flag.Uint64("seed", 0, "what TestSoak draws its edits from; 0: the clock")
)

// TestSoak makes random valid edits of every part of the rules, one a few hundred milliseconds, under constant load through a
// client's sidecar, a server's sidecar and a gateway. Each answer is compared with the rules that may have been in force meanwhile: it must
// be one that some version asks for; and no client is served that every version of the policies denies.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./test/envoy -run TestSoak -soak %s -seed %d", *soakTime, seed)
	bothProtocols(t, func(t *testing.T, sotw bool) {
		s := newSoak(t, sotw, seed)
		s.start(t)
		for end := time.Now().Add(*soakTime); time.Now().Before(end) && !t.Failed(); {
			s.edit(t)
		}
		s.stop(t)
	})
}

// slack is how long after its ACK a proxy may still answer by the version before: its workers have to get the new one, and a listener has
// to warm.
const slack = 200 * time.Millisecond

// soakDrain is how long connections of replaced listeners may go on: the time that agents set.
const soakDrain = 45 * time.Second

// soak is the mesh, its rules so far, and the results.
type soak struct {
	m    *live.Mesh
	draw *rand.Rand
	n    int // edits

	route, edge line[routing]
	endpoints   line[string] // which of "abcd" serve soak.test; a and c are v1, b and d v2; a and b have sidecars
	policies    line[policies]
	mode        line[string]
	comer       line[bool]            // whether comer.soak.test is there
	tokens      line[bool]            // whether servers look at tokens
	filters     map[string]*line[int] // what a header of that name has; 0: nothing

	machines bool   // the service's endpoints are WorkloadEntries, which come and go one by one
	served   string // those that there are
	issuer   *live.Issuer
	good     string // a token
	bad      string // one with another's signature

	cert  live.Pair
	ca    *live.Authority
	trust *live.Trust

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	news  chan struct{}
	each  map[string]int // answers by client
	kinds map[string]int // answers by kind
	wrong map[string]int
	first map[string]string // of each wrong kind, at length
}

// filterContexts are the headers that filters add, and the contexts of these filters.
var filterContexts = map[string]string{"x-in": "SIDECAR_INBOUND", "x-out": "SIDECAR_OUTBOUND", "x-at": "GATEWAY"}

func newSoak(t *testing.T, sotw bool, seed uint64) *soak {
	s := &soak{
		m: live.Start(t, live.Options{}), draw: rand.New(rand.NewPCG(seed, seed)), filters: map[string]*line[int]{},
		news: make(chan struct{}), each: map[string]int{}, kinds: map[string]int{}, wrong: map[string]int{}, first: map[string]string{},
	}
	s.trust, s.issuer, s.machines = live.NewTrust(t), live.NewIssuer(t), s.draw.IntN(2) == 0
	s.good = s.issuer.Token(t, map[string]any{"sub": "ann"})
	s.bad = s.good[:strings.LastIndexByte(s.good, '.')] + "." + strings.Repeat("A", 86)
	t.Logf("endpoints are WorkloadEntries: %t", s.machines)
	ports := []any{}
	for _, x := range []string{"a", "b"} {
		ports = append(ports, "http-"+x, s.m.BackendOnLocalhost(t, x), "tcp-"+x, s.m.TCPBackendOnLocalhost(t, x))
	}
	for _, x := range []string{"c", "d"} {
		s.m.BackendAt(t, x, s.m.Addr("soak-"+x, live.Backing))
		s.m.TCPBackendAt(t, x, s.m.Addr("soak-"+x, 9000))
	}
	s.ca = live.NewAuthority(t, "soak")
	s.cert = s.ca.Issue(t, "soak.example")
	s.route.next(routing{})
	s.edge.next(routing{stamp: 1, attempts: -1})
	s.endpoints.next("abcd")
	s.policies.next(policies{})
	s.mode.next("PERMISSIVE")
	s.comer.next(true)
	s.tokens.next(false)
	for header := range filterContexts {
		s.filters[header] = &line[int]{}
		s.filters[header].next(0)
	}
	s.m.Set(
		t, s.m.Rules(t, "soak.txtar:mesh", ports...), s.entry(t), s.m.Rules(t, "soak.txtar:comer"),
		s.m.Rules(t, "soak.txtar:edge", "http", s.edge.last().http("x-edge")), s.m.Rules(t, "soak.txtar:mode", "mode", "PERMISSIVE"),
	)
	s.serve(t, "abcd")
	node := func(name, account string, labels map[string]string) live.Node {
		return live.Node{Name: name, Sotw: sotw, Labels: labels, Drain: soakDrain, Identity: s.trust.Issue(t, account).Files}
	}
	s.m.ClientNode(t, node(client, "web", nil))
	s.m.Proxy(t, node("soak-a", "server", map[string]string{"app": "soak", "version": "v1"}))
	s.m.Proxy(t, node("soak-b", "server", map[string]string{"app": "soak", "version": "v2"}))
	edge := node(gateway, "edge", map[string]string{"istio": "gateway"})
	edge.Router = true
	s.m.Proxy(t, edge)
	return s
}

// serve makes these the endpoints of soak.test: in the ServiceEntry, or as WorkloadEntries; new ones come before old ones go.
func (s *soak) serve(t *testing.T, which string) {
	t.Helper()
	var inline, machines []string
	for _, x := range which {
		version, account := "v1", ""
		if x == 'b' || x == 'd' {
			version = "v2"
		}
		if x < 'c' {
			account = ", serviceAccount: server"
		}
		address := s.m.IP("soak-" + string(x))
		inline = append(inline, fmt.Sprintf("{address: %q, labels: {version: %s}%s}", address, version, account))
		machines = append(machines, s.m.Rules(
			t, "soak.txtar:machine", "name", string(x), "address", address, "version", version, "account", account,
		))
	}
	if !s.machines {
		s.m.Set(t, s.m.Rules(t, "soak.txtar:service", "endpoints", "endpoints: ["+strings.Join(inline, ", ")+"]"))
		return
	}
	s.m.Set(t, append(machines, s.m.Rules(t, "soak.txtar:service", "endpoints", "workloadSelector: {labels: {app: soak}}"))...)
	for _, x := range "abcd" {
		if !strings.ContainsRune(which, x) && strings.ContainsRune(s.served, x) {
			s.m.Drop("WorkloadEntry soak-" + string(x))
		}
	}
	s.served = which
}

func (s *soak) entry(t *testing.T) string {
	t.Helper()
	hosts := ""
	for i := range s.draw.IntN(3) {
		hosts += fmt.Sprintf(", more-%d.example", i*s.draw.IntN(5))
	}
	return s.m.Rules(
		t, "soak.txtar:entry", "hosts", hosts, "cert", s.cert.CertFile, "key", s.cert.KeyFile, "more", 8100+s.draw.IntN(5),
	)
}

func (s *soak) subsets(t *testing.T) string {
	t.Helper()
	return s.m.Rules(t, "soak.txtar:subsets", "policy", drawTrafficPolicy(s.draw), "policy-v2", drawTrafficPolicy(s.draw))
}

// edit makes one edit, or a few at once, waits until all proxies have them, and until every client has been answered since.
func (s *soak) edit(t *testing.T) {
	t.Helper()
	for range 1 + s.draw.IntN(8)/7*s.draw.IntN(4) {
		s.n++
		s.one(t)
	}
	s.m.Settle(t)
	s.settle()
	s.await(t, 3+s.draw.IntN(5))
}

func (s *soak) settle() {
	s.route.settle()
	s.edge.settle()
	s.endpoints.settle()
	s.policies.settle()
	s.mode.settle()
	s.comer.settle()
	s.tokens.settle()
	for _, l := range s.filters {
		l.settle()
	}
}

// one hands over one edit.
func (s *soak) one(t *testing.T) {
	t.Helper()
	set := func(section string, pairs ...any) { s.m.Set(t, s.m.Rules(t, "soak.txtar:"+section, pairs...)) }
	switch s.draw.IntN(14) {
	case 0, 1:
		s.reroute(t)
	case 2:
		r := drawRouting(s.draw, s.n+1)
		s.edge.next(r)
		if r.subsets() && s.draw.IntN(2) == 0 {
			s.m.Set(t, s.subsets(t))
		}
		set("edge", "http", r.http("x-edge"))
		if r.subsets() {
			s.m.Set(t, s.subsets(t))
		}
	case 3:
		which := pickOf(s.draw, "a", "c", "ac") + pickOf(s.draw, "b", "d", "bd")
		s.endpoints.next(which)
		s.serve(t, which)
	case 4, 5, 6:
		all := s.policies.last()
		i := s.draw.IntN(len(all))
		all[i] = drawPolicy(s.draw)
		s.policies.next(all)
		if all[i].action == "" {
			s.m.Drop(fmt.Sprintf("AuthorizationPolicy soak-%d", i))
		} else {
			set("policy", "name", i, "action", all[i].action, "rules", all[i].text())
		}
	case 7:
		mode := pickOf(s.draw, "STRICT", "PERMISSIVE")
		s.mode.next(mode)
		set("mode", "mode", mode)
	case 8:
		there := !s.comer.last()
		s.comer.next(there)
		if there {
			set("comer")
		} else {
			s.m.Drop("ServiceEntry soak-comer")
		}
	case 9, 10:
		header := pickOf(s.draw, slices.Sorted(maps.Keys(filterContexts))...)
		name := strings.TrimPrefix(header, "x-")
		if s.draw.IntN(4) == 0 {
			s.filters[header].next(0)
			s.m.Drop("EnvoyFilter soak-" + name)
		} else {
			s.filters[header].next(s.n)
			set("filter", "name", name, "context", filterContexts[header], "stamp", s.n)
		}
	case 11:
		s.m.Set(t, s.entry(t))
	case 12:
		// All of it imports what the clients call.
		named := `"./soak.test", "default/comer.soak.test"`
		set("imports", "http", pickOf(s.draw, `"*/*"`, `"./*"`, named), "rest", pickOf(s.draw, `"*/*"`, `"default/*"`, named))
	case 13:
		looked := !s.tokens.last()
		s.tokens.next(looked)
		if looked {
			set("tokens", "issuer", s.issuer.URL, "keys", s.issuer.Keys())
		} else {
			s.m.Drop("RequestAuthentication soak")
		}
	}
}

// reroute changes the VirtualService of soak.test, and the DestinationRule with it in either order.
func (s *soak) reroute(t *testing.T) {
	t.Helper()
	if s.draw.IntN(6) == 0 {
		s.route.next(routing{})
		drop := []string{"VirtualService soak", "DestinationRule soak"}
		if s.edge.last().subsets() {
			drop = drop[:1]
		}
		if s.draw.IntN(2) == 0 {
			slices.Reverse(drop)
		}
		for _, object := range drop {
			s.m.Drop(object)
		}
		return
	}
	r := drawRouting(s.draw, s.n+1)
	s.route.next(r)
	texts := []string{
		s.m.Rules(t, "soak.txtar:route", "http", r.http("x-route"), "tcp", r.destinations(r.rest, 9000)), s.subsets(t),
	}
	switch s.draw.IntN(3) {
	case 0:
		s.m.Set(t, texts...)
		return
	case 1:
		slices.Reverse(texts)
	}
	for _, text := range texts {
		s.m.Set(t, text)
	}
}

// start starts the clients, and waits until each has been answered.
func (s *soak) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	t.Cleanup(func() { cancel(); s.wg.Wait() })
	web := from(s.m, "soak.test")
	entry := live.Request{To: s.m.Addr("soak-entry", 8000), Host: "soak.example"}
	secure := live.Request{
		To: s.m.Addr("soak-entry", 8443), Host: "soak.example", TLS: &tls.Config{ServerName: "soak.example", RootCAs: s.ca.Pool},
	}
	to := func(server string) live.Request {
		return live.Request{To: s.m.Addr("soak-"+server, 8080), Host: "soak.test"}
	}
	own := to("b")
	own.TLS = asWorkload(s.trust.Issue(t, "web"))
	two := func(r live.Request) live.Request { r.HTTP2 = true; return r }
	live.AwaitTCP(t, s.m.Addr("soak-vip", 9000))
	for _, r := range []live.Request{web, entry, secure} {
		live.Send(t, r)
	}
	for _, c := range []httpCaller{
		{s, "web, kept", "web", "", web, 0, pause},
		{s, "web, HTTP/2", "web", "", two(web), 0, pause},
		{s, "web, fresh", "web", "", web, 1, pause},
		{s, "edge, kept", "edge", "", entry, 0, pause},
		{s, "edge, HTTP/2", "edge", "", two(entry), 7, pause},
		{s, "edge, HTTPS", "edge", "", secure, 0, pause},
		{s, "edge, fresh", "edge", "", secure, 1, pause},
		{s, "web itself, fresh", "web", "b", own, 1, pause},
		{s, "stranger, kept", "", "a", to("a"), 0, pause},
		{s, "stranger, HTTP/2", "", "a", two(to("a")), 0, pause},
		{s, "stranger, fresh", "", "b", to("b"), 1, pause},
		{s, "web, seldom", "web", "", web, 0, 40 * pause},
		{s, "web, HTTP/2, seldom", "web", "", two(web), 0, 60 * pause},
		{s, "edge, seldom", "edge", "", secure, 0, 50 * pause},
		{s, "stranger, seldom", "", "a", to("a"), 0, 30 * pause},
		{s, "stranger, HTTP/2, seldom", "", "b", two(to("b")), 0, 30 * pause},
	} {
		s.wg.Go(func() { c.run(ctx) })
		if c.pause == pause {
			s.each[c.name] = 0 // edits wait for those
		}
	}
	s.wg.Go(func() { s.callComer(ctx) })
	s.each["comer"] = 0
	for name, times := range map[string]int{"TCP": 1, "lasting TCP": 200} {
		s.wg.Go(func() { s.callTCP(ctx, name, times) })
		s.each[name] = 0
	}
	s.await(t, 1)
}

// pause is each client's between two requests: the load is constant, and the machine others', too.
const pause = 20 * time.Millisecond

func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// httpCaller sends requests of every sort in turn.
type httpCaller struct {
	s       *soak
	name    string
	from    string
	direct  string // the server that it asks past all other proxies; empty: it does not
	request live.Request
	times   int // requests on one connection; 0: as many as it lives
	pause   time.Duration
}

func (c httpCaller) run(ctx context.Context) {
	kept := live.Keep(c.request)
	defer func() { kept.Close() }()
	sorts := []call{
		{path: "/open"}, {path: "/admin"}, {path: "/open", user: "ann"}, {path: "/open", user: "bob"}, {path: "/abort"},
		{path: "/admin", token: "good"}, {path: "/open", token: "bad"},
	}
	var fresh bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { fresh = !i.Reused }})
	var before time.Time // when the last answer came
	for i := 0; ctx.Err() == nil; i++ {
		if c.times > 0 && i%c.times == 0 {
			kept.Close()
			kept = live.Keep(c.request)
		}
		sort := sorts[i%len(sorts)]
		sort.from = c.from
		r := c.request
		r.Method, r.Path = http.MethodPost, sort.path
		r.Header = map[string]string{}
		if sort.user != "" {
			r.Header["x-user"] = sort.user
		}
		if sort.token != "" {
			r.Header["authorization"] = "Bearer " + map[string]string{"good": c.s.good, "bad": c.s.bad}[sort.token]
		}
		bound, cancel := context.WithTimeout(traced, rig.Bound)
		start := time.Now()
		reply, err := kept.Send(bound, r)
		end := time.Now()
		cancel()
		if ctx.Err() != nil {
			return
		}
		a := answer{sort, c.direct, start, start, end}
		if !fresh {
			a.since = before
		}
		before = end
		c.s.note(c.name, a, c.s.judgeHTTP(a, reply, err), fmt.Sprint(reply.Status), reply, err)
		rest(ctx, c.pause)
	}
}

// callTCP sends so many lines on each connection.
func (s *soak) callTCP(ctx context.Context, name string, times int) {
	line := live.KeepTCP(s.m.Addr("soak-vip", 9000))
	defer line.Close()
	var opened time.Time
	for i := 0; ctx.Err() == nil; i++ {
		start := time.Now()
		if i%times == 0 {
			line.Close()
		}
		if !line.Connected() {
			opened = start
		}
		server, err := line.Ask(ctx)
		end := time.Now()
		if ctx.Err() != nil {
			return
		}
		a := answer{call{from: "web", tcp: true}, "", opened, opened, end} // a connection is judged once, when it is made
		s.note(name, a, s.judgeTCP(a, server, err), "TCP", live.Reply{Echo: live.Echo{Server: server}}, err)
		rest(ctx, pause)
	}
}

// callComer asks a service that comes and goes.
func (s *soak) callComer(ctx context.Context) {
	r := from(s.m, "comer.soak.test")
	r.Method = http.MethodPost
	kept := live.Keep(r)
	defer kept.Close()
	for ctx.Err() == nil {
		start := time.Now()
		reply, err := kept.Send(ctx, r)
		end := time.Now()
		if ctx.Err() != nil {
			return
		}
		a := answer{call{from: "web", path: "/"}, "", start, start, end}
		verdict := ""
		there := s.comer.during(start, end, slack)
		switch served := err == nil && reply.Status == 200; {
		case served && !slices.Contains(there, true):
			verdict = "a service that is gone answers"
		case !served && !slices.Contains(there, false):
			verdict = "a service that is there does not answer"
		}
		s.note("comer", a, verdict, fmt.Sprint("comer ", reply.Status), reply, err)
		rest(ctx, pause)
	}
}

// answer is when a call was made and answered.
type answer struct {
	call
	direct string // as httpCaller's
	// since is when the connection may have been given the filters that it has: a listener that is replaced serves those of its
	// connections one answer more that it had, and asks them to go with that.
	since      time.Time
	start, end time.Time
}

// served is since when the connection to the server may have had the filters that it has.
func (a answer) served() time.Time {
	if a.direct == "" && !a.tcp {
		return a.start.Add(-soakIdle - slack)
	}
	return a.since
}

// backendsOf returns the backends that a call may reach by the rules in force meanwhile, through routes with the given stamp; -1: with any
// stamp.
func (s *soak) backendsOf(a answer, stamp int) string {
	if a.direct != "" {
		return a.direct
	}
	routes := &s.route
	if a.from == "edge" {
		routes = &s.edge
	}
	out := ""
	for _, r := range routes.during(a.start, a.end, slack) {
		if stamp >= 0 && r.stamp != stamp || r.aborted(a.call) {
			continue
		}
		for _, all := range s.endpoints.during(a.start, a.end, slack) {
			for i, x := range "abcd" {
				if strings.ContainsRune(all, x) && r.goes(a.call, []string{"v1", "v2", "v1", "v2"}[i]) && !strings.ContainsRune(out, x) {
					out += string(x)
				}
			}
		}
	}
	return out
}

// policed reports whether some version of the policies allows a call, and whether some denies it.
func (s *soak) policed(a answer) (allowed, denied bool) {
	for _, looked := range s.tokens.during(a.served(), a.end, slack) {
		for _, p := range s.policies.during(a.served(), a.end, slack) {
			if p.allow(a.call.looked(looked)) {
				allowed = true
			} else {
				denied = true
			}
		}
	}
	return allowed, denied
}

// unproved reports whether the call brings a token that every version refuses.
func (a answer) unproved(s *soak) bool {
	return a.token == "bad" && !slices.Contains(s.tokens.during(a.served(), a.end, slack), false)
}

// judgeHTTP returns the error in an answer; empty: none.
func (s *soak) judgeHTTP(a answer, r live.Reply, err error) string {
	allowed, denied := s.policed(a)
	modes := s.mode.during(a.served(), a.end, slack)
	if err != nil {
		if a.from == "" && slices.Contains(modes, "STRICT") {
			return ""
		}
		return "no answer"
	}
	stamp := -1
	if a.direct == "" && r.Status != http.StatusTeapot {
		stamp, _ = strconv.Atoi(r.Header.Get(map[string]string{"web": "x-route", "edge": "x-edge"}[a.from]))
	}
	switch r.Status {
	case http.StatusTeapot:
		routes := append(s.route.during(a.start, a.end, slack), s.edge.during(a.start, a.end, slack)...)
		if slices.ContainsFunc(routes, func(r routing) bool { return r.aborted(a.call) }) {
			return ""
		}
		return "aborted by no rule"
	case http.StatusUnauthorized:
		switch {
		case a.token != "bad" || !slices.Contains(s.tokens.during(a.served(), a.end, slack), true):
			return "refused for a token that no version looks at"
		case !strings.ContainsAny(s.backendsOf(a, stamp), "ab"):
			return "refused at a server that no route leads to"
		}
		return s.filtered(a, r)
	case http.StatusForbidden:
		switch {
		case a.unproved(s):
			return "SERVED with a bad token where every version looks at it"
		case !denied:
			return "denied by no version of the policies"
		case !strings.ContainsAny(s.backendsOf(a, stamp), "ab"):
			return "denied at a server that no route leads to"
		}
		return s.filtered(a, r)
	case http.StatusOK:
	default:
		return fmt.Sprintf("failed with %d %q", r.Status, r.Body)
	}
	backends := s.backendsOf(a, stamp)
	switch server := r.Echo.Server; {
	case a.from == "" && !slices.Contains(modes, "PERMISSIVE"):
		return "SERVED in plaintext where every version is STRICT"
	case strings.Contains("ab", server) && !allowed:
		return "SERVED where every version of the policies denies"
	case strings.Contains("ab", server) && a.unproved(s):
		return "SERVED with a bad token where every version looks at it"
	case !strings.Contains(backends, server):
		return "served by a backend that no version leads to"
	}
	return s.filtered(a, r)
}

// filtered holds the headers of filters against those in force.
func (s *soak) filtered(a answer, r live.Reply) string {
	for header, l := range s.filters {
		stamp, _ := strconv.Atoi(r.Header.Get(header))
		passes := map[string]bool{
			"x-in":  turnedAway(r) || strings.Contains("ab", r.Echo.Server),
			"x-out": a.from == "web" && a.direct == "", "x-at": a.from == "edge",
		}[header]
		if turnedAway(r) && header == "x-in" {
			continue // the filter comes after the filters that deny
		}
		since := a.since
		if header == "x-in" {
			since = a.served()
		}
		if !passes {
			if stamp != 0 {
				return "a filter of elsewhere: " + header
			}
		} else if !slices.Contains(l.during(since, a.end, slack), stamp) {
			return "a filter that no version asks for: " + header
		}
	}
	return ""
}

// turnedAway reports whether a server's sidecar answered by itself.
func turnedAway(r live.Reply) bool {
	return r.Status == http.StatusForbidden || r.Status == http.StatusUnauthorized
}

// judgeTCP returns the error in the answer to a line over TCP; empty: none.
func (s *soak) judgeTCP(a answer, server string, err error) string {
	allowed, denied := s.policed(a)
	backends := s.backendsOf(a, -1)
	switch {
	case err != nil && denied && strings.ContainsAny(backends, "ab"):
		return ""
	case err != nil:
		return "no answer"
	case strings.Contains("ab", server) && !allowed:
		return "SERVED where every version of the policies denies"
	case !strings.Contains(backends, server):
		return "served by a backend that no version leads to"
	}
	return ""
}

// note counts an answer.
func (s *soak) note(client string, a answer, wrong, kind string, r live.Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.each[client]; ok {
		s.each[client]++
	}
	if err != nil {
		kind += " closed"
	}
	s.kinds[kind]++
	if wrong != "" {
		key := client + ": " + wrong
		if s.wrong[key]++; s.wrong[key] == 1 {
			s.first[key] = s.describe(a, r, err)
		}
	}
	close(s.news)
	s.news = make(chan struct{})
}

// describe is an answer with the rules around it.
func (s *soak) describe(a answer, r live.Reply, err error) string {
	at := a.start
	out := fmt.Sprintf(
		"%+v since %s, took %s: %d of %q, headers %v, body %q, %v",
		a.call, a.since.Sub(at), a.end.Sub(at), r.Status, r.Echo.Server, r.Header, r.Body[:min(200, len(r.Body))], err,
	)
	out += "\n    routes" + s.route.ago(at) + "\n    edge" + s.edge.ago(at) + "\n    endpoints" + s.endpoints.ago(at)
	out += "\n    policies" + s.policies.ago(at) + "\n    mode" + s.mode.ago(at) + "\n    comer" + s.comer.ago(at)
	out += "\n    tokens" + s.tokens.ago(at)
	for header, l := range s.filters {
		out += "\n    " + header + l.ago(a.start)
	}
	return out
}

// await waits until each client has been answered n times more.
func (s *soak) await(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	before := maps.Clone(s.each)
	s.mu.Unlock()
	timeout := time.After(2 * rig.Bound)
	for {
		s.mu.Lock()
		waits, news := "", s.news
		for name, was := range before {
			if s.each[name] < was+n {
				waits = name
			}
		}
		s.mu.Unlock()
		if waits == "" {
			return
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("%s is not answered any more\n%s", waits, s.m.Logs())
		}
	}
}

// stop stops the clients, and reports the numbers of edits and answers, and the errors.
func (s *soak) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	s.wg.Wait()
	total := 0
	for _, n := range s.each {
		total += n
	}
	t.Logf("%d edits, %d answers: %v", s.n, total, s.kinds)
	for _, key := range slices.Sorted(maps.Keys(s.wrong)) {
		t.Errorf("%d times %s\nthe first: %s", s.wrong[key], key, s.first[key])
	}
	for _, p := range s.m.Plane.Problems() {
		if p.Severity == mesh.Error {
			t.Errorf("an edit is not valid: %s", p)
		}
	}
}

// TestSoakJudges: what the soak holds answers against can be wrong.
func TestSoakJudges(t *testing.T) {
	s := &soak{filters: map[string]*line[int]{"x-in": {}}}
	s.route.next(routing{stamp: 1, rest: "v1", ann: "v1"})
	s.edge.next(routing{stamp: 1, rest: "v2", ann: "v1", abort: true})
	s.endpoints.next("abc")
	s.mode.next("STRICT")
	s.tokens.next(true)
	s.filters["x-in"].next(7)
	s.policies.next(policies{{action: "DENY", rules: ruleForms[:1]}})
	start := time.Now()
	reply := func(status int, server string, headers ...string) live.Reply {
		r := live.Reply{Status: status, Echo: live.Echo{Server: server}, Header: http.Header{}}
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		return r
	}
	open, admin := call{from: "web", path: "/open"}, call{from: "web", path: "/admin"}
	ann, abort := call{from: "edge", path: "/open", user: "ann"}, call{from: "edge", path: "/abort"}
	for _, c := range []struct {
		call   call
		direct string
		reply  live.Reply
		wrong  string
	}{
		{open, "", reply(200, "a", "x-route", "1", "x-in", "7"), ""},
		{open, "", reply(200, "c", "x-route", "1"), ""},
		{open, "", reply(200, "b", "x-route", "1", "x-in", "7"), "served by a backend that no version leads to"},
		{open, "", reply(200, "a", "x-route", "2", "x-in", "7"), "served by a backend that no version leads to"},
		{open, "", reply(200, "a", "x-route", "1", "x-in", "6"), "a filter that no version asks for: x-in"},
		{open, "", reply(200, "c", "x-route", "1", "x-in", "7"), "a filter of elsewhere: x-in"},
		{open, "", reply(403, "", "x-route", "1"), "denied by no version of the policies"},
		{open, "", reply(503, "", "x-route", "1"), `failed with 503 ""`},
		{open, "", reply(418, ""), "aborted by no rule"},
		{admin, "", reply(403, "", "x-route", "1"), ""},
		{admin, "", reply(200, "a", "x-route", "1", "x-in", "7"), "SERVED where every version of the policies denies"},
		{ann, "", reply(200, "a", "x-edge", "1", "x-in", "7"), ""},
		{ann, "", reply(200, "b", "x-edge", "1", "x-in", "7"), "served by a backend that no version leads to"},
		{abort, "", reply(418, ""), ""},
		{abort, "", reply(200, "b", "x-edge", "1", "x-in", "7"), "served by a backend that no version leads to"},
		{call{from: "web", path: "/open", token: "bad"}, "a", reply(401, ""), ""},
		{call{from: "web", path: "/open", token: "good"}, "a", reply(401, ""), "refused for a token that no version looks at"},
		{call{from: "web", path: "/open", token: "bad"}, "a", reply(200, "a", "x-in", "7"),
			"SERVED with a bad token where every version looks at it"},
		{call{path: "/open"}, "a", reply(200, "a", "x-in", "7"), "SERVED in plaintext where every version is STRICT"},
		{call{from: "web", path: "/open"}, "a", reply(200, "a", "x-in", "7"), ""},
	} {
		a := answer{c.call, c.direct, start, start, time.Now()}
		if got := s.judgeHTTP(a, c.reply, nil); got != c.wrong {
			t.Errorf("%+v: %d of %q %v is judged %q, want %q", c.call, c.reply.Status, c.reply.Echo.Server, c.reply.Header, got, c.wrong)
		}
	}
	// The old version is over, but for a while answers may still follow it.
	s.policies.next(policies{})
	s.policies.settle()
	for after, want := range map[time.Duration]string{slack / 2: "", 2 * slack: "denied by no version of the policies"} {
		at := time.Now().Add(after)
		a := answer{admin, "a", at, at, at}
		if got := s.judgeHTTP(a, reply(403, ""), nil); got != want {
			t.Errorf("%s after a policy was taken away, its refusal is judged %q, want %q", after, got, want)
		}
	}
	one := call{from: "web", tcp: true}
	a := answer{one, "", start, start, start}
	if s.judgeTCP(a, "a", nil) == "" || s.judgeTCP(a, "", context.Canceled) != "" {
		t.Error("a DENY rule that asks for a path denies connections")
	}
	if strings.Contains(s.backendsOf(a, -1), "b") || s.judgeTCP(a, "c", nil) != "" {
		t.Error("connections go to the subset that the route says")
	}
}
