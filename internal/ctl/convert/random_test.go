package convert_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/golden"
)

// TestRandom: VirtualServices that are drawn at random, of few paths and headers so that their matches meet, are converted without loss or
// not at all: what is converted has the effect of the original.
func TestRandom(t *testing.T) {
	a := golden.Read(t, "testdata/equivalent/http.txtar")
	base, gateway := string(a.File("base.yaml")), string(a.File("gateway.yaml"))
	whole, cases := 0, 40
	if testing.Short() {
		cases = 20
	}
	for seed := range uint64(cases) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := draw{rand.New(rand.NewPCG(seed, 7))}
			rules := gateway
			for i := range 1 + d.IntN(2) {
				rules += "---\n" + d.virtualService(i)
			}
			elements := d.IntN(2) == 0
			before := compiletest.Large(t)
			before.Apply(base + "\n---\n" + rules)
			made, lost := converted(t, before.Decode(base+"\n---\n"+rules), elements)
			if len(lost) > 0 {
				return
			}
			whole++
			if sameRoutes(t, before, base, made, elements); t.Failed() {
				t.Log(rules)
			}
		})
	}
	if whole < cases/6 {
		t.Errorf("%d of %d are converted: the test is about too few", whole, cases)
	}
	t.Logf("%d of %d are converted", whole, cases)
}

// draw draws parts of VirtualServices.
type draw struct{ *rand.Rand }

func (d draw) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d draw) virtualService(i int) string {
	var rules []string
	for range 1 + d.IntN(4) {
		rules = append(rules, d.rule())
	}
	if d.IntN(2) == 0 {
		rules = append(rules, "{"+d.action()+"}")
	}
	where := d.pick("hosts: [a.example.com], gateways: [edge/front]", `hosts: ["*.example.com"], gateways: [edge/front]`,
		"hosts: [reviews, a.example.com], gateways: [edge/front]", "hosts: [reviews]", "hosts: [reviews], gateways: [mesh, edge/front]")
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: drawn-%d, namespace: shop}\n"+
		"spec: {%s, http: [%s]}\n", i, where, strings.Join(rules, ", "))
}

func (d draw) rule() string {
	var blocks []string
	for range 1 + d.IntN(2) {
		blocks = append(blocks, "{"+d.block()+"}")
	}
	return "{match: [" + strings.Join(blocks, ", ") + "], " + d.action() + "}"
}

func (d draw) block() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(d.pick("", "", "uri: {exact: /a}", "uri: {exact: /a/b}", "uri: {prefix: /a}", "uri: {prefix: /a/}", "uri: {prefix: /a/b}",
		`uri: {regex: "/a/[a-c]"}`, "uri: {prefix: /}"))
	add(d.pick("", "", "", "headers: {x: {exact: some}}", "headers: {x: {exact: other}}", "headers: {x: {prefix: so}, z: {}}"))
	add(d.pick("", "", "", "method: {exact: GET}", "method: {exact: POST}"))
	add(d.pick("", "", "", "queryParams: {q: {exact: some}}"))
	add(d.pick("", "", "", "", "port: 80", "port: 8080", "gateways: [mesh]", "gateways: [edge/front]"))
	return strings.Join(parts, ", ")
}

func (d draw) action() string {
	if d.IntN(8) == 0 {
		return d.pick("redirect: {uri: /z, scheme: http, authority: z.example.com}",
			"redirect: {redirectCode: 302, port: 8443, scheme: https}")
	}
	to := d.pick("route: [{destination: {host: reviews, port: {number: 80}}}]", "route: [{destination: {host: reviews-v2}}]",
		"route: [{destination: {host: ledger.bank.svc.cluster.local}}]",
		"route: [{destination: {host: reviews, port: {number: 8080}}, weight: 30}, {destination: {host: reviews-v2}, weight: 70}]")
	return to + d.pick("", "", "", ", timeout: 3s", ", retries: {attempts: 5}", ", mirror: {host: reviews-v2}", ", rewrite: {uri: /y/}",
		", rewrite: {uri: /y}", ", headers: {request: {set: {h: v}}}")
}
