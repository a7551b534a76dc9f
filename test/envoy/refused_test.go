package envoy

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// mistake is a rule that an Envoy would refuse if it got it unchanged.
type mistake struct{ name, spec string }

// TestNothingRefused writes rules that an Envoy would refuse. They must not reach an Envoy: the user's object reports
// the mistake, and other traffic goes on.
func TestNothingRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x{1000}", 40) // a program of 40,000 instructions
	makes(
		t,
		"VirtualService mistaken-test",
		"refused.txtar:route",
		[]mistake{
			{
				"a regular expression that does not compile",
				`{match: [{uri: {regex: "/(unclosed"}}], route: [{destination: {host: mistaken.test}}]}`,
			},
			{
				"a regular expression that is too large",
				`{match: [{uri: {regex: "/` + long + `"}}], route: [{destination: {host: mistaken.test}}]}`,
			},
			{
				"a header name with a line break",
				`{route: [{destination: {host: mistaken.test}}], headers: {request: {set: {"x-a\nb": "1"}}}}`,
			},
			{
				"a header value with a line break",
				`{route: [{destination: {host: mistaken.test}}], headers: {request: {set: {x-a: "1\n2"}}}}`,
			},
			{
				"an unknown variable in a header value",
				`{route: [{destination: {host: mistaken.test}}], headers: {request: {set: {x-a: "%NO_SUCH_THING%"}}}}`,
			},
			{
				"a header that only the proxy may set",
				`{route: [{destination: {host: mistaken.test}}], headers: {request: {remove: [":path"]}}}`,
			},
			{
				"a rewrite that names a group it does not have",
				`{match: [{uri: {prefix: /a}}], rewrite: {uriRegexRewrite: {match: "/a", rewrite: "/\\7"}}, route: [{destination: {host: mistaken.test}}]}`,
			},
			{"a status that is none", `{directResponse: {status: 99}}`},
			{"a body that is too large", `{directResponse: {status: 200, body: {string: "` + strings.Repeat("x", 2<<20) + `"}}}`},
			{
				"an origin that does not compile",
				`{corsPolicy: {allowOrigins: [{regex: "(("}]}, route: [{destination: {host: mistaken.test}}]}`,
			},
			{
				"a retry condition that is none",
				`{retries: {attempts: 1, retryOn: "not-a-condition"}, route: [{destination: {host: mistaken.test}}]}`,
			},
			{
				"a negative delay",
				`{fault: {delay: {fixedDelay: -1s, percentage: {value: 100}}}, route: [{destination: {host: mistaken.test}}]}`,
			},
		},
	)
}

// TestClustersNotRefused does the same with DestinationRules, which make clusters.
func TestClustersNotRefused(t *testing.T) {
	t.Parallel()
	makes(
		t,
		"DestinationRule mistaken-test",
		"refused.txtar:rule",
		[]mistake{
			{"a table size that is no prime", `{loadBalancer: {consistentHash: {httpHeaderName: x, maglev: {tableSize: 10}}}}`},
			{"a negative timeout", `{connectionPool: {tcp: {connectTimeout: -1s}}}`},
			{"a timeout of nothing", `{connectionPool: {tcp: {connectTimeout: 0s}}}`},
			{"an ejection of more than all", `{outlierDetection: {maxEjectionPercent: 101}}`},
			{"an interval of nothing", `{outlierDetection: {interval: 0s}}`},
			{"MUTUAL without certificate", `{tls: {mode: MUTUAL}}`},
		},
	)
}

// makes writes one mistake after the other into an object while another service is asked without pause.
func makes(t *testing.T, object, rules string, mistakes []mistake) {
	t.Helper()
	m := live.Start(t, live.Options{})
	m.Backends(t, "sound", "mistaken")
	m.Client(t, client)
	m.Apply(t, m.Rules(t, "refused.txtar:sound"))
	load := live.StartLoad(t, httpCrowd(from(m, "sound.test"))...)
	for _, c := range mistakes {
		t.Run(c.name, func(t *testing.T) {
			objects, problems := m.TryDecode(m.Rules(t, rules, "mistake", c.spec))
			m.Plane.Rules.Set(objects...)
			m.Settle(t)
			if len(errorsOf(problems)) == 0 && len(errorsOf(m.ProblemsOf(object))) == 0 {
				t.Errorf("nobody was told; problems: %v", m.Plane.Problems())
			}
			load.Await(t, 3)
			m.Delete(t, object)
			wantServer(t, live.Send(t, from(m, "mistaken.test")), "mistaken")
		})
	}
	load.Stop(t)
}

func errorsOf(problems []mesh.Problem) []mesh.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p mesh.Problem) bool { return p.Severity != mesh.Error })
}

// TestRefused makes Envoys refuse rules that the control plane could not know to be wrong: certificates that are not on
// the proxy's disk. The proxy keeps its old resources, the user's object reports the proxy's error, everything else
// goes on and can be changed, and a corrected object is in force at once.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("cluster sotw %t", sotw), func(t *testing.T) { t.Parallel(); refused(t, sotw) })
		t.Run(fmt.Sprintf("listener sotw %t", sotw), func(t *testing.T) { t.Parallel(); refusedListener(t, sotw) })
	}
}

func refused(t *testing.T, sotw bool) {
	m := live.Start(t, live.Options{MayRefuse: true})
	m.Backends(t, "mistaken")
	m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
	m.Apply(t, serving(t, m, "sound"), subsets(t, m, "sound"), allTo(t, m, "sound", "v1"), m.Rules(t, "refused.txtar:service"))
	sound := clientsOf(t, m, "sound")
	mistaken := live.StartLoad(t, httpCrowd(from(m, "mistaken.test"))...)
	missing := filepath.Join(t.TempDir(), "nowhere.pem")
	for i := range 3 {
		m.Apply(t, m.Rules(t, "refused.txtar:certificate", "file", missing))
		awaitProblem(t, m, "DestinationRule mistaken-test", missing)
		mistaken.Await(t, 10)
		version := fmt.Sprintf("v%d", 1+(i+1)%2)
		m.Apply(t, allTo(t, m, "sound", version)) // with the refused cluster still wanted
		wantAll(t, m, "sound", version)
		m.Apply(t, m.Rules(t, "refused.txtar:third", "third", fmt.Sprintf("v%d", 3+i))) // clusters come and go too
		sound.Await(t, 10)
		m.Apply(t, m.Rules(t, "refused.txtar:mended", "requests", 1000+i))
		awaitNoProblem(t, m, "DestinationRule mistaken-test")
		mistaken.Await(t, 10)
	}
	sound.Stop(t)
	mistaken.Stop(t)
}

// awaitProblem waits until an object reports a proxy's refusal, which is known in the turn after the proxy's answer.
func awaitProblem(t *testing.T, m *live.Mesh, object, text string) {
	t.Helper()
	rig.Eventually(t, func() error {
		for _, p := range errorsOf(m.ProblemsOf(object)) {
			if strings.Contains(p.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%s does not say what the proxy refused: %v", object, m.Plane.Problems())
	})
}

func awaitNoProblem(t *testing.T, m *live.Mesh, object string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if p := errorsOf(m.ProblemsOf(object)); len(p) > 0 {
			return fmt.Errorf("mended, %s still has problems: %v", object, p)
		}
		return nil
	})
}

// refusedListener: of a gateway's servers one names a certificate that is not there; the others serve, and change.
func refusedListener(t *testing.T, sotw bool) {
	m := live.Start(t, live.Options{MayRefuse: true})
	ca := live.NewAuthority(t, "gateway")
	pair := ca.Issue(t, "mistaken.example")
	mistaken := func(key string) string {
		return m.Rules(t, "refused.txtar:gateway", "cert", pair.CertFile, "key", key)
	}
	route := func(version string) string { return m.Rules(t, "refused.txtar:gateway-route", "version", version) }
	m.Apply(t, serving(t, m, "sound"), subsets(t, m, "sound"), m.Rules(t, "refused.txtar:gateways"), route("v1"))
	m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"istio": "gateway"}, Sotw: sotw})
	enter := live.Request{To: m.Addr("sound-entry", 8000), Host: "sound.example"}
	load := live.StartLoad(t, httpCrowd(enter)...)
	missing := filepath.Join(t.TempDir(), "nowhere.key")
	secure := live.Request{
		To:   m.Addr("mistaken-entry", 8443),
		Host: "mistaken.example",
		TLS:  &tls.Config{ServerName: "mistaken.example", RootCAs: ca.Pool},
	}
	for i := range 3 {
		m.Apply(t, mistaken(missing))
		awaitProblem(t, m, "Gateway mistaken", missing)
		version := fmt.Sprintf("v%d", 1+(i+1)%2)
		m.Apply(t, route(version)) // with the refused listener still wanted
		if got := live.Tally(t, 10, enter); got["sound-"+version] != 10 {
			t.Errorf("requests are answered by %v, want %s", got, version)
		}
		load.Await(t, 10)
		m.Apply(t, mistaken(pair.KeyFile))
		awaitNoProblem(t, m, "Gateway mistaken")
		wantStatus(t, live.Send(t, secure), 200)
	}
	load.Stop(t)
}
