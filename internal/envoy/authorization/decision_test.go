package authorization_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/types/known/anypb"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/authorization"
)

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// engines are the RBAC rules of all filters that are built from policies, for requests and for other connections.
type engines struct{ requests, connections []*rbacv3.RBAC }

func enginesOf(t testing.TB, policies []*authorization.Compiled) (out engines) {
	rules := func(config *anypb.Any) *rbacv3.RBAC {
		m, err := config.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		switch c := m.(type) {
		case *httprbacv3.RBAC:
			return c.GetRules()
		case *networkrbacv3.RBAC:
			return c.GetRules()
		}
		t.Fatalf("no such filter: %v", m)
		return nil
	}
	for _, f := range authorization.Requests(policies, authorization.Authorizer{}) {
		out.requests = append(out.requests, rules(f.GetTypedConfig()))
	}
	for _, f := range authorization.Connections(policies, authorization.Authorizer{}) {
		out.connections = append(out.connections, rules(f.GetTypedConfig()))
	}
	return out
}

// pass reports whether all of them allow a request.
func (e engines) pass(t testing.TB, q request) bool {
	list := e.connections
	if q.http {
		list = e.requests
	}
	return !slices.ContainsFunc(list, func(rules *rbacv3.RBAC) bool { return !interpreter{t, q}.passes(rules) })
}

// draw makes random policies and requests from few words, so that they match each other.
type draw struct{ *rand.Rand }

func (d draw) of(list ...string) string { return list[d.IntN(len(list))] }

func (d draw) some(odds float64, list ...string) (out []string) {
	if d.Float64() > odds {
		return nil
	}
	for range 1 + d.IntN(2) {
		out = append(out, d.of(list...))
	}
	return out
}

var (
	trust   = []string{"td-new", "td-old"}
	callers = []string{
		"", "td-new/ns/shop/sa/web", "td-old/ns/shop/sa/db", "td-old/ns/shop-2/sa/web", "away/ns/shop/sa/web",
		"away/ns/bank/sa/till",
	}
	who = []string{
		"*", "td-old/ns/shop/sa/web", "cluster.local/ns/shop/sa/db", "away/ns/*", "*/sa/web", "td-new/*", "td*",
		"*-old/ns/shop/sa/web", "*ill",
	}
	spaces        = []string{"*", "shop", "sh*", "*p-2", "bank", "shop/sa/web"}
	accounts      = []string{"web", "shop/web", "bank/till"}
	domains       = []string{"*", "td-new", "td*", "*ay", "cluster.local"}
	blocks        = []string{"10.0.0.1", "10.0.0.0/24", "10.1.0.0/16", "2001:db8::/32", "0.0.0.0/0"}
	ips           = []string{"10.0.0.1", "10.0.0.2", "10.1.2.3", "192.168.0.1", "2001:db8::1"}
	hosts         = []string{"Shop.example.com", "*.example.com", "shop.*", "*", "shop.example.com:80"}
	customMatched = []string{"shop.example.com", "SHOP.example.com", "www.example.com", "shop.example.com:80", "other"}
	methods       = []string{"GET", "P*", "*T", "*"}
	paths         = []string{"/", "/a*", "*.html", "*", "/a/{*}", "/a/{**}", "/a/{*}/c/{**}", "/a/{**}/c"}
	urls          = []string{"/", "/a", "/a/b", "/a/b/c", "/a/b/c/d.html", "/a/", "/a//c", "/b.html", "/a/b/c/"}
	ports         = []string{"80", "8080", "9000"}
	names         = []string{"a.test", "*.test", "a*", "*"}
	who2          = []string{
		"*", "issuer/x", "https://issuer/x", "https://issuer/*", "*/x", "https*", "*issuer/x", "issuer", "a/b/c", "a/*",
		"*b/c", "https://issuer/",
	}
	issuers  = []string{"issuer", "https://issuer", "a", "a/b", ""}
	subjects = []string{"x", "b/c", "c", ""}
	texts    = []string{"x", "xy*", "*z", "*", "xyz"}
	values   = []string{"x", "xyz", "zz", "", "xy"}
	keys     = []string{
		"source.ip", "remote.ip", "source.namespace", "source.principal", "source.serviceAccount", "source.trustDomain",
		"request.auth.principal", "request.auth.audiences", "request.auth.presenter", "request.auth.claims[groups]",
		"request.auth.claims[realm][roles]", "request.headers[X-Group]", "request.headers[host]", "destination.ip",
		"destination.port", "connection.sni", "experimental.envoy.filters.network.mysql_proxy[db.table]",
	}
)

func (d draw) policy() authorization.Policy {
	spec := &securityv1beta1.AuthorizationPolicy{Action: securityv1beta1.AuthorizationPolicy_Action(d.IntN(3))}
	for range d.IntN(3) {
		r := &securityv1beta1.Rule{}
		for range d.IntN(3) {
			r.From = append(r.From, &securityv1beta1.Rule_From{Source: d.source()})
		}
		for range d.IntN(3) {
			r.To = append(r.To, &securityv1beta1.Rule_To{Operation: d.operation()})
		}
		for range d.IntN(2) {
			key := d.of(keys...)
			r.When = append(r.When, &securityv1beta1.Condition{
				Key: key, Values: d.some(.7, wordsOf(key)...), NotValues: d.some(.4, wordsOf(key)...),
			})
		}
		spec.Rules = append(spec.Rules, r)
	}
	return authorization.Policy{Namespace: "shop", Name: d.of("a", "b", "c"), DryRun: d.IntN(8) == 0, Spec: spec}
}

func wordsOf(key string) []string {
	switch key {
	case "source.ip", "remote.ip", "destination.ip":
		return blocks
	case "source.namespace":
		return spaces
	case "source.principal":
		return who
	case "source.serviceAccount":
		return accounts
	case "source.trustDomain":
		return domains
	case "request.auth.principal":
		return who2
	case "destination.port":
		return ports
	case "connection.sni":
		return names
	case "request.headers[host]":
		return customMatched
	case "experimental.envoy.filters.network.mysql_proxy[db.table]":
		return []string{"[x]", "[xy*]", "x", "[*]", "*"}
	}
	return texts
}

func (d draw) source() *securityv1beta1.Source {
	return &securityv1beta1.Source{
		Principals: d.some(.2, who...), NotPrincipals: d.some(.1, who...),
		RequestPrincipals: d.some(.2, who2...), NotRequestPrincipals: d.some(.1, who2...),
		Namespaces: d.some(.2, spaces...), NotNamespaces: d.some(.1, spaces...),
		ServiceAccounts: d.some(.1, accounts...), NotServiceAccounts: d.some(.1, accounts...),
		TrustDomains: d.some(.1, domains...), NotTrustDomains: d.some(.1, domains...),
		IpBlocks: d.some(.2, blocks...), NotIpBlocks: d.some(.1, blocks...),
		RemoteIpBlocks: d.some(.1, blocks...), NotRemoteIpBlocks: d.some(.1, blocks...),
	}
}

func (d draw) operation() *securityv1beta1.Operation {
	return &securityv1beta1.Operation{
		Hosts: d.some(.2, hosts...), NotHosts: d.some(.1, hosts...), Ports: d.some(.2, ports...), NotPorts: d.some(.1, ports...),
		Methods: d.some(.2, methods...), NotMethods: d.some(.1, methods...), Paths: d.some(.4, paths...), NotPaths: d.some(.1, paths...),
	}
}

func (d draw) request() request {
	q := request{
		http: d.IntN(4) > 0, caller: d.of(callers...), source: netip.MustParseAddr(d.of(ips...)),
		remote: netip.MustParseAddr(d.of(ips...)), destination: netip.MustParseAddr(d.of(ips...)), port: d.of(ports...),
		sni: d.of("", "a.test", "b.test"), filters: map[string]map[string]any{},
	}
	if d.IntN(2) == 0 {
		q.filters["envoy.filters.network.mysql_proxy"] = map[string]any{"db.table": d.claim()}
	}
	if !q.http {
		return q
	}
	q.host, q.method, q.path = d.of(customMatched...), d.of("GET", "PUT", "POST", "DELETE"), d.of(urls...)
	q.headers = map[string]string{}
	if d.IntN(3) > 0 {
		q.headers["x-group"] = d.of(values...)
	}
	if d.IntN(3) > 0 {
		q.claims = map[string]any{
			"iss": d.of(issuers...), "sub": d.of(subjects...), "aud": d.claim(), "azp": d.of(values...), "groups": d.claim(),
			"realm": map[string]any{"roles": d.claim()},
		}
	}
	return q
}

func (d draw) claim() any {
	switch d.IntN(4) {
	case 0:
		return nil
	case 1:
		return []any{d.of(values...), d.of(values...)}
	case 2:
		return 7.0
	}
	return d.of(values...)
}

// TestDecisions compares the decisions of proxies with the documentation, for random policies and requests.
func TestDecisions(t *testing.T) {
	rounds := 6000
	if testing.Short() {
		rounds = 300
	}
	d := draw{rand.New(rand.NewPCG(13, 2026))}
	var let, refused int
	for round := range rounds {
		var policies []authorization.Policy
		var compiled []*authorization.Compiled
		for range 1 + d.IntN(3) {
			p := d.policy()
			p.Name += fmt.Sprint(len(policies))
			c := authorization.Compile(p, trust)
			if len(c.Faults) > 0 {
				t.Fatalf("round %d: %v cannot be compiled: %v", round, p.Spec, c.Faults)
			}
			for _, r := range append(c.Requests, c.Connections...) {
				if err := envoy.Encode(r.RBAC).Err; err != nil {
					t.Fatalf("round %d: Envoy would refuse %v: %v", round, p.Spec, err)
				}
			}
			policies, compiled = append(policies, p), append(compiled, c)
		}
		proxy := enginesOf(t, compiled)
		for range 20 {
			q := d.request()
			want := evaluator{trust}.allowed(policies, q)
			if got := proxy.pass(t, q); got != want {
				for _, p := range policies {
					t.Logf("dry run %v: %v", p.DryRun, p.Spec)
				}
				t.Fatalf("round %d: of %+v\nproxies say %v, the documentation %v", round, q, got, want)
			}
			if want {
				let++
			} else {
				refused++
			}
		}
	}
	if let+refused < 20*rounds || let < refused/20 || refused < let/20 {
		t.Errorf("%d requests pass and %d are refused: the draw is lopsided", let, refused)
	}
	t.Logf("%d requests pass, %d are refused", let, refused)
}
