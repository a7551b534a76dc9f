package scale_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

var gateways = flag.Int("gateways", 50, "Gateways of the larger mesh, of ten listeners and ten HTTPRoutes each; the smaller one has 10")

// edge is a folder with Gateways and HTTPRoutes: each Gateway has ten listeners, with a route each, and all routes lead to one of a hundred
// services.
type edge struct{ dir string }

// each is how many listeners a Gateway has, and how many routes.
const each = 10

// route is the HTTPRoute of a listener.
func (e edge) route(gateway, listener int, path string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r-%[1]d-%[2]d, namespace: shop}
spec:
  parentRefs: [{name: g-%[1]d, namespace: edge}]
  hostnames: [shop.l-%[2]d.g-%[1]d.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: %[3]s}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: %[4]s.shop.svc.cluster.local, port: 80}]
`, gateway, listener, path, name((gateway*each+listener)%few))
}

// write writes the routes of a Gateway, and the path of the first one.
func (e edge) write(t *testing.T, gateway int, path string) {
	t.Helper()
	var text []string
	for l := range each {
		text = append(text, e.route(gateway, l, path))
		path = "/"
	}
	replace(t, e.dir, fmt.Sprintf("routes-%d.yaml", gateway), strings.Join(text, "---\n"))
}

// gateway writes a Gateway.
func (e edge) gateway(t *testing.T, n int) {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g-%d, namespace: edge}
spec:
  gatewayClassName: fairway
  listeners:
`, n)
	for l := range each {
		text += fmt.Sprintf("  - {name: l-%[1]d, port: 8080, protocol: HTTP, hostname: \"*.l-%[1]d.g-%[2]d.example.com\", "+
			"allowedRoutes: {namespaces: {from: All}}}\n", l, n)
	}
	rig.Write(t, e.dir, fmt.Sprintf("gateway-%d.yaml", n), []byte(text))
}

// gateway connects a gateway's proxy, and returns once it has all listeners' routes.
func (p *program) gateway(t *testing.T, n int) *ads.Timed {
	t.Helper()
	who := plane.Proxy{
		Name: fmt.Sprintf("g-%d", n), Namespace: "edge", Type: "router", IP: fmt.Sprintf("10.9.%d.%d", n/250, n%250+1),
		Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": fmt.Sprintf("g-%d", n)},
	}
	x := ads.NewTimed(who.Node(), p.reader)
	if err := x.Connect(context.Background(), p.grpc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Disconnect)
	rig.Eventually(t, func() error {
		if !x.Complete() || x.Count() < each {
			return errors.New(x.State())
		}
		return nil
	})
	return x
}

// TestGateways: the edit of an HTTPRoute costs the same rows, one resource and the same bytes among few Gateways and among many.
func TestGateways(t *testing.T) {
	if testing.Short() {
		t.Skip("gateways by the hundred")
	}
	var small, large figures
	t.Run("few", func(t *testing.T) { small = edit(t, 10) })
	t.Run("many", func(t *testing.T) { large = edit(t, *gateways) })
	if t.Failed() {
		return
	}
	if small.rows != large.rows || small.bytes != large.bytes || small.rows == 0 {
		t.Errorf("an edit is %d rows and %d bytes among 10 Gateways, %d and %d among %d",
			small.rows, small.bytes, large.rows, large.bytes, *gateways)
	}
	if ratio := float64(large.cpu) / float64(small.cpu); ratio > 4 { // well above the promised ratio, for machines with other work
		t.Errorf("the CPU of an edit grows with the number of routes: %.2f times", ratio)
	}
}

// edit has a program read so many Gateways, and their routes, and edits these.
func edit(t *testing.T, n int) (out figures) {
	discovery.Path(t)
	e := edge{t.TempDir()}
	for i := range few {
		ofFiles(e).change(t, i, "")
	}
	live := func() int { return launch(t, e.dir, "").live(t) }
	empty := live()
	for i := range n {
		e.gateway(t, i)
	}
	bare := live()
	for i := range n {
		e.write(t, i, "/")
	}
	begun := time.Now()
	p := launch(t, e.dir, "")
	ready := time.Since(begun)
	full := p.live(t)
	const proxies = 10
	var clients [proxies]*ads.Timed
	for i := range clients {
		clients[i] = p.gateway(t, i)
	}
	p.profile(t, "heap?gc=1", fmt.Sprintf("gateways-%d-heap", n))
	t.Logf("%d Gateways, %d routes: ready after %s; %d bytes a listener, %d bytes a route",
		n, n*each, ready.Round(time.Millisecond), (bare-empty)/(n*each), (full-bare)/(n*each))
	var took []time.Duration
	var bytes []int
	rows, cpu := p.rows(t), p.CPU(t)
	for round := range rounds {
		x := clients[round%proxies]
		x.TakeTotals()
		begun := time.Now()
		e.write(t, round%proxies, fmt.Sprintf("/%03d", round))
		var sent ads.Totals
		rig.Eventually(t, func() error {
			more := x.TakeTotals()
			sent.Resources, sent.Bytes = sent.Resources+more.Resources, sent.Bytes+more.Bytes
			if sent.Resources == 0 {
				return errors.New("nothing is sent")
			}
			return nil
		})
		took = append(took, time.Since(begun))
		if sent.Resources != 1 {
			t.Errorf("%d resources were sent", sent.Resources)
		}
		bytes = append(bytes, sent.Bytes)
	}
	out.cpu, out.rows = (p.CPU(t)-cpu)/rounds, int(p.rows(t)-rows)/rounds
	slices.Sort(took)
	slices.Sort(bytes)
	out.median, out.bytes = took[rounds/2], bytes[rounds/2]
	t.Logf("an edit: median %s, %s of CPU, %d rows, %d bytes", out.median.Round(10*time.Microsecond), out.cpu.Round(10*time.Microsecond),
		out.rows, out.bytes)
	return out
}
