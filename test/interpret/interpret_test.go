package interpret

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/interpret"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// requests is how many requests each site gets.
const requests = 900

// site is a place where requests enter a proxy.
type site struct {
	name   string
	proxy  string
	to     string // address and port
	from   string // the client's address
	mark   live.Mark
	rounds int // requests; 0: the usual number
	hosts  []string
	tls    *tls.Config
	shown  *interpret.TLS
	tokens []token
	tcp    bool
	http2  bool // in plaintext
	entry  interpret.Direction
}

// token is a token as a header, and as the interpreter gets it.
type token struct {
	text  string
	given interpret.Token
}

// world is the mesh of the test.
type world struct {
	*live.Mesh
	servers map[string]string // by address

	mu       sync.Mutex
	compared int
	unknown  int
	outcomes map[string]int
}

// TestInterpret compares what the interpreter says with what Envoys do.
func TestInterpret(t *testing.T) {
	w := newWorld(t)
	w.all(t, w.build(t))
	w.enough(t, 5000)
}

func newWorld(t *testing.T) *world {
	return &world{Mesh: live.Start(t, live.Options{}), servers: map[string]string{}, outcomes: map[string]int{}}
}

// all compares at sites, with the configurations that the proxies have now.
func (w *world) all(t *testing.T, sites []site) {
	start := time.Now()
	configs := map[string]interpret.Config{}
	for _, s := range sites {
		if _, known := configs[s.proxy]; !known {
			configs[s.proxy] = configOf(t, w.Envoy(s.proxy))
		}
	}
	t.Run("sites", func(t *testing.T) {
		for i, s := range sites {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				w.compare(t, s, configs[s.proxy], uint64(i))
			})
		}
	})
	t.Logf("%d requests compared in %s, %d of them not interpreted; outcomes %v", w.compared, time.Since(start), w.unknown, w.outcomes)
}

// enough fails the test if fewer requests were compared, or many of them were not interpreted.
func (w *world) enough(t *testing.T, requests int) {
	t.Helper()
	if w.compared < requests || w.unknown > w.compared/50 {
		t.Errorf("%d requests were compared and %d of them not interpreted", w.compared, w.unknown)
	}
}

// build starts the servers and proxies.
func (w *world) build(t *testing.T) []site {
	for _, name := range []string{"v1", "v2", "v3"} {
		w.Backend(t, name)
		w.servers[w.Addr(name, live.Backing)] = name
	}
	for _, name := range []string{"tcp-a", "tcp-b"} {
		w.TCPBackend(t, name, 9000)
		w.servers[w.Addr(name, 9000)] = name
	}
	ports := []any{}
	local := func(name string, port int) {
		w.servers[fmt.Sprintf("127.0.0.1:%d", port)] = name
		ports = append(ports, name, port)
	}
	for _, name := range []string{"guarded", "tokens", "mutual"} {
		local(name, w.BackendOnLocalhost(t, name))
	}
	local("guarded-tcp", w.TCPBackendOnLocalhost(t, "guarded-tcp"))
	one, two := live.NewIssuer(t), live.NewIssuer(t)
	ca := w.Authority(t, "gateway")
	first, second := ca.Issue(t, "one.example"), ca.Issue(t, "two.example")
	values := append(ports, "issuer", one.URL, "issuer2", two.URL, "keys", one.Keys(), "keys2", two.Keys(),
		"cert-one", first.CertFile, "key-one", first.KeyFile, "cert-two", second.CertFile, "key-two", second.KeyFile)
	var rules []string
	for _, section := range []string{"services", "matches", "wildcards", "answers", "shares", "delegates", "gateway", "workloads"} {
		rules = append(rules, w.Rules(t, "rules.txtar:"+section, values...))
	}
	w.Set(t, rules...)
	trust := live.NewTrust(t)
	w.Client(t, "client")
	w.Proxy(t, live.Node{Name: "gateway", Router: true, Labels: map[string]string{"istio": "gateway"}})
	w.Proxy(t, live.Node{Name: "guarded"})
	w.Proxy(t, live.Node{Name: "tokens"})
	w.Proxy(t, live.Node{Name: "mutual", Identity: trust.Issue(t, "default/mutual").Files})
	return w.sites(t, trust, tokensOf(t, one, two))
}

func tokensOf(t testing.TB, one, two *live.Issuer) (out []token) {
	for _, claims := range []map[string]any{
		{"sub": "ann", "aud": "shop"}, {"sub": "bob", "aud": []any{"bank", "till"}, "group": "admins"},
		{"sub": "bob", "aud": "bank", "group": "guests"}, {"sub": "eve", "aud": "shop", "group": []any{"admins", "guests"}},
	} {
		for i, issuer := range []*live.Issuer{one, two, live.NewIssuer(t)} {
			given := map[string]any{"iss": issuer.URL}
			for k, v := range claims {
				given[k] = v
			}
			if i < 2 || claims["sub"] == "ann" {
				out = append(out, token{issuer.Token(t, claims), interpret.Token{Claims: given}})
			}
		}
	}
	return out
}

func (w *world) sites(t testing.TB, trust *live.Trust, tokens []token) (out []site) {
	client := w.Addr("client-egress", live.HTTPPort)
	for _, host := range []string{"match.test", "answers.test", "shares.test", "delegates.test"} {
		out = append(out, site{name: host, proxy: "client", to: client, hosts: []string{host}, entry: interpret.Outbound})
	}
	out = append(out,
		site{name: "wildcards", proxy: "client", to: client,
			hosts: []string{"a.wild.test", "deep.wild.test", "very.deep.wild.test", "wild.test"}},
		site{name: "gateway", proxy: "gateway", to: w.Addr("entry", 8000), tokens: tokens,
			hosts: []string{"one.example", "one.example", "secure.example", "x.two.example", "y.two.example",
				"two.example", "three.example"}},
		site{name: "tcp", proxy: "gateway", to: w.Addr("entry", 9310), tcp: true},
		site{name: "guarded", proxy: "guarded", to: w.Addr("guarded", 8080),
			hosts: []string{"shop.test", "a.shop.test"}, entry: interpret.Inbound},
		site{name: "guarded from foe", proxy: "guarded", to: w.Addr("guarded", 8080), hosts: []string{"shop.test"}, from: w.IP("foe")},
		site{name: "guarded tcp", proxy: "guarded", to: w.Addr("guarded", 9000), tcp: true},
		site{name: "guarded tcp from foe", proxy: "guarded", to: w.Addr("guarded", 9000), tcp: true, from: w.IP("foe")},
		site{name: "tokens", proxy: "tokens", to: w.Addr("tokens", 8080), hosts: []string{"shop.test"}, tokens: tokens},
		site{name: "mutual plaintext", proxy: "mutual", to: w.Addr("mutual", 8080),
			hosts: []string{"shop.test"}, entry: interpret.Inbound},
	)
	for _, name := range []string{"one.example", "z.two.example", "three.example"} {
		out = append(out, site{
			name: "gateway TLS " + name, proxy: "gateway", to: w.Addr("entry", 8443), hosts: []string{"one.example", "x.two.example", name},
			tls:    &tls.Config{ServerName: name, InsecureSkipVerify: true},
			shown:  &interpret.TLS{ServerName: name, ALPN: []string{"http/1.1"}},
			tokens: tokens,
		})
	}
	for _, account := range []string{"shop/web", "bank/till", "shop/till"} {
		s := site{name: "mutual " + account, proxy: "mutual", to: w.Addr("mutual", 8080), hosts: []string{"shop.test"}}
		s.tls, s.shown = w.certified(t, trust, account, "istio")
		out = append(out, s)
	}
	return out
}

// certified returns what a client with the certificate of a service account shows.
func (w *world) certified(t testing.TB, trust *live.Trust, account, alpn string) (*tls.Config, *interpret.TLS) {
	config := trust.Issue(t, account).TLS.Clone()
	config.NextProtos = []string{alpn}
	ns, name, _ := strings.Cut(account, "/")
	return config, &interpret.TLS{
		ALPN: []string{alpn}, Certificate: true, URIs: []string{"spiffe://cluster.local/ns/" + ns + "/sa/" + name},
	}
}

// seen is what a client saw.
type seen struct {
	failed   error
	reply    live.Reply
	greeting string
}

func (s seen) String() string {
	if s.failed != nil {
		return "no answer: " + s.failed.Error()
	}
	return fmt.Sprintf("status %d server %q host %q path %q location %q greeting %q", s.reply.Status, s.reply.Header.Get("x-server"),
		s.reply.Echo.Host, s.reply.Echo.Path, s.reply.Header.Get("location"), s.greeting)
}

// tally compares shares: how often an outcome was seen, how often it was expected, and the variance of that.
type tally struct{ seen, expected, variance float64 }

func (w *world) compare(t *testing.T, s site, c interpret.Config, seed uint64) {
	d := draw{rand.New(rand.NewPCG(2026, seed)), wordsOf(c)}
	base := live.Request{To: s.to, TLS: s.tls, HTTP2: s.http2}
	if s.from != "" || s.mark != 0 {
		base.Dial = s.mark.From(s.from)
	}
	kept := live.Keep(base)
	defer kept.Close()
	rounds, differences := cmp.Or(s.rounds, requests), 0
	if s.tcp {
		rounds /= 4
	}
	shares, kinds := map[string]*tally{}, map[string]int{}
	for range rounds {
		asked := interpret.Request{Protocol: "tcp"}
		if !s.tcp {
			asked = d.request(s.hosts)
		}
		if s.http2 {
			asked.Protocol = "h2c"
		}
		w.enter(&asked, s, d)
		answer, err := interpret.Explain(c, asked)
		if err != nil {
			t.Fatalf("%+v: %v", asked, err)
		}
		got := w.send(s, kept, base, asked)
		kinds[fmt.Sprint(answer.Ways[0].Outcome.Kind, " ", answer.Ways[0].Outcome.Status, " ", answer.Ways[0].Outcome.Details)]++
		if w.agree(answer, got, shares) {
			continue
		}
		if differences++; differences <= 3 {
			t.Errorf("%+v\nEnvoy: %s\n%s", asked, got, answer.Text())
		}
	}
	t.Logf("the first of the predicted ways: %v", kinds)
	if differences > 3 {
		t.Errorf("%d differences", differences)
	}
	for what, n := range shares {
		if math.Abs(n.seen-n.expected) > 5*math.Sqrt(n.variance)+1e-6 {
			t.Errorf("%s was seen %.0f times, and expected %.1f times", what, n.seen, n.expected)
		}
	}
}

// enter completes a request with the place where it enters, and with a token.
func (w *world) enter(r *interpret.Request, s site, d draw) {
	r.Destination, r.TLS, r.Direction = netip.MustParseAddrPort(s.to), s.shown, s.entry
	source := "127.0.0.1"
	if s.from != "" {
		source = s.from
	}
	r.Source = netip.AddrPortFrom(netip.MustParseAddr(source), 40000)
	if len(s.tokens) > 0 && d.IntN(3) > 0 {
		one := s.tokens[d.IntN(len(s.tokens))]
		r.Headers["authorization"] = []string{"Bearer " + one.text}
		r.Tokens = []interpret.Token{one.given}
	}
}

// send sends a request, or makes a connection.
func (w *world) send(s site, kept *live.Kept, base live.Request, r interpret.Request) seen {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	if s.tcp {
		dial := base.Dial
		if dial == nil {
			dial = (&net.Dialer{}).DialContext
		}
		conn, err := dial(ctx, "tcp", s.to)
		if err != nil {
			return seen{failed: err}
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(rig.Bound))
		in, greeting := bufio.NewReader(conn), ""
		// The client speaks first: rules for connections are checked when it sends something, and some listeners wait for it.
		if _, err = fmt.Fprintln(conn, "hello"); err == nil {
			if greeting, err = in.ReadString('\n'); err == nil {
				_, err = in.ReadString('\n')
			}
		}
		return seen{failed: err, greeting: strings.TrimSpace(greeting)}
	}
	base.Method, base.Host, base.Path, base.Header = r.Method, r.Authority, r.Path, map[string]string{}
	for name, values := range r.Headers {
		base.Header[name] = values[0]
	}
	reply, err := kept.Send(ctx, base)
	return seen{failed: err, reply: reply}
}

// agree reports whether what was seen is one of the ways, and adds to the shares.
func (w *world) agree(a interpret.Answer, got seen, shares map[string]*tally) bool {
	fits := func(way interpret.Way) bool { return w.fits(way.Outcome, got) }
	at := slices.IndexFunc(a.Ways, fits)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compared++
	if slices.ContainsFunc(a.Ways, func(way interpret.Way) bool {
		return way.Outcome.Kind == interpret.Unknown || len(way.Conditions)+len(way.Doubts) > 0
	}) {
		w.unknown++
		return true
	}
	if at < 0 {
		return false
	}
	o := a.Ways[at].Outcome
	w.outcomes[fmt.Sprintf("%d %d", o.Kind, o.Status)]++
	if len(a.Ways) == 1 && len(o.Endpoints) < 2 {
		return true
	}
	add := func(name string, chance float64, is bool) {
		n := shares[name]
		if n == nil {
			n = &tally{}
			shares[name] = n
		}
		n.expected += chance
		n.variance += chance * (1 - chance)
		if is {
			n.seen++
		}
	}
	for _, way := range a.Ways {
		add(fmt.Sprintf("%d %s", way.Outcome.Status, way.Outcome.Cluster), way.Probability, fits(way))
	}
	return true
}

// fits reports whether an outcome is what was seen.
func (w *world) fits(o interpret.Outcome, got seen) bool {
	switch o.Kind {
	case interpret.Closed:
		return got.failed != nil
	case interpret.Answered:
		status := o.Status
		if o.GRPC {
			status = 200
		}
		return got.failed == nil && got.reply.Status == status && o.GRPC == (got.reply.Header.Get("grpc-status") != "") &&
			got.reply.Header.Get("x-server") == "" &&
			got.reply.Header.Get("location") == o.Location
	case interpret.Forwarded:
		server := got.reply.Header.Get("x-server")
		if o.TCP && got.greeting != "" {
			server = got.greeting
		}
		if got.failed != nil ||
			!slices.ContainsFunc(o.Endpoints, func(e interpret.Endpoint) bool { return w.servers[e.Address] == server }) {
			return false
		}
		echo := got.reply.Echo
		return o.TCP || echo.Server == "" || (o.Path == "" || o.Path == echo.Path) && (o.Authority == "" || o.Authority == echo.Host)
	}
	return false
}
