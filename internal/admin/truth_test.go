package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/envoy/warming"
	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/rig"
)

const reviewsCluster = "outbound|80||reviews.shop.svc.cluster.local"

const rule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  http:
  - timeout: SECONDSs
    route:
    - destination: {host: reviews}
`

// TestHistory: a turn knows its cause, its work, whom it was sent to and who acknowledged or refused it.
func TestHistory(t *testing.T) {
	p := start(t)
	p.Apply(t, "mesh.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Connect(t, plane.Proxy{Name: "web-2", IP: "10.0.0.10"})
	p.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "3"))
	p.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "4"))
	p.Delete(t, config.VirtualService, "shop", "reviews")
	const of = "/debug/historyz?kind=vs&namespace=shop&name=reviews"
	turns := read[[]page.Turn](t, p, of)
	if len(turns) != 3 {
		t.Fatalf("%d turns of the rule, want 3: %+v", len(turns), turns)
	}
	for i, change := range []string{"added", "changed", "removed"} {
		turn := turns[i]
		want := page.TurnObject{Kind: "VirtualService", Namespace: "shop", Name: "reviews", Change: change}
		if len(turn.Objects) != 1 || turn.Objects[0] != want || turn.ObjectCount != 1 {
			t.Errorf("turn %d: cause %+v, want %+v", turn.Number, turn.Objects, want)
		}
		if turn.Full || turn.Rows == 0 || turn.Changed == 0 || turn.ResourceCount != 1 || turn.Resources[0].Type != "vhds" {
			t.Errorf("turn %d: work %+v", turn.Number, turn)
		}
		if turn.Proxies != 2 || turn.Responses != 2 || turn.Bytes == 0 || turn.Acks != 2 || turn.FirstAckMillis <= 0 ||
			turn.LastAckMillis < turn.FirstAckMillis || turn.RefusalCount != 0 {
			t.Errorf("turn %d: proxies %+v", turn.Number, turn)
		}
	}
	if one := read[[]page.Turn](t, p, of+"&most=1"); len(one) != 1 || one[0].Number != turns[2].Number {
		t.Errorf("the last one is %+v", one)
	}
	if later := read[[]page.Turn](t, p, of+"&after="+text(turns[1].Number)); len(later) != 1 || later[0].Number != turns[2].Number {
		t.Errorf("after the second: %+v", later)
	}
	if some := read[[]page.Turn](t, p, "/debug/historyz?proxyID=web-2&turn="+text(turns[0].Number)); len(some) != 1 {
		t.Errorf("the proxy was sent %+v", some)
	}
	p.Refuse(t, plane.Proxy{Name: "old", IP: "10.0.0.11"}, xdstype.ClusterURL, reviewsCluster, "no such thing")
	logged := regexp.MustCompile(`msg="a proxy refuses resources" turn=(\d+) proxy=\S*old.shop\S* type=cds names=\S+ because="no such thing"`)
	_, _, lines := ask(t, p, http.MethodGet, "/debug/logz")
	if line := logged.FindStringSubmatch(lines); line == nil || line[1] == "0" {
		t.Errorf("the log does not name the turn that a proxy refused: %q in\n%s", line, lines)
	}
	for _, bad := range []string{"turn=x", "most=0", "kind=nosuch", "kind=vs", "proxyID=nobody"} {
		if status, _, body := ask(t, p, http.MethodGet, "/debug/historyz?"+bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

// TestLive: a version is live once it was read, is in force, and is acknowledged.
func TestLive(t *testing.T) {
	p := plane.Start(t, plane.Options())
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p.Apply(t, "mesh.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	live := func(query, state string, proxies int) page.Live {
		t.Helper()
		got := read[page.Live](t, p, "/debug/livez?"+query)
		if got.State != state || got.Proxies != proxies {
			t.Fatalf("%s: %+v, want %s on %d proxies", query, got, state, proxies)
		}
		return got
	}
	const vs = "kind=VirtualService&namespace=shop&name="
	live(vs+"reviews", page.LiveUnread, 0)
	p.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "3"))
	first := live(vs+"reviews", page.LiveYes, 1)
	live(vs+"reviews&hash="+hash(t, strings.ReplaceAll(rule, "SECONDS", "3")), page.LiveYes, 1)
	live(vs+"reviews&hash="+hash(t, strings.ReplaceAll(rule, "SECONDS", "4")), page.LiveUnread, 0)
	live(vs+"reviews&generation=7", page.LiveUnread, 0)
	live("turn="+text(first.Turn), page.LiveYes, 1)
	live("turn="+text(first.Turn+1000), page.LivePending, 0)

	waits := strings.NewReplacer("name: reviews,", "name: waits,", "[reviews]", "[waits.example]",
		"{host: reviews}", "{host: reviews, subset: v9}", "SECONDS", "3").Replace(rule)
	p.Apply(t, "waits.yaml", waits)
	got := read[page.Live](t, p, "/debug/livez?"+vs+"waits")
	if got.State != page.LiveWaits || got.Until == nil || !strings.Contains(strings.Join(got.Why, " "), "subset v9") {
		t.Errorf("a rule whose subset is missing: %+v", got)
	}
	p.Refuse(t, plane.Proxy{Name: "old", IP: "10.0.0.11"}, xdstype.ClusterURL, reviewsCluster, "no such thing")
	live(vs+"reviews", page.LiveYes, 2)
	p.Apply(t, "policy.yaml", `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec:
  host: reviews
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}
`)
	refused := live("kind=dr&namespace=shop&name=reviews", page.LiveRefused, 2)
	if len(refused.Behind) != 1 || refused.Behind[0].Detail != "no such thing" || !strings.Contains(refused.Behind[0].ProxyID, "old") {
		t.Errorf("what was refused: %+v", refused.Behind)
	}
	for _, bad := range []string{"", "kind=vs", "kind=nosuch&name=x", "turn=-1", "turn=1&proxyID=nobody", vs + "x&hash=xyz"} {
		if status, _, body := ask(t, p, http.MethodGet, "/debug/livez?"+bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

func text(n uint64) string { return strconv.FormatUint(n, 10) }

// hash is the hash of an object's content, as pilotctl asks with it.
func hash(t *testing.T, document string) string {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, problems := decoder.Decode(config.Split("rule.yaml", []byte(document))[0])
	if o == nil {
		t.Fatal(problems)
	}
	return strconv.FormatUint(o.CreatedAt(0).Hash, 16)
}

// TestWarming: a turn that changed listeners or clusters is live once agents report, after the acknowledgement, that nothing warms.
func TestWarming(t *testing.T) {
	p := plane.Start(t, plane.Options())
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p.Apply(t, "mesh.yaml", reviews)
	web := p.Connect(t, plane.Proxy{Name: "web-1"})
	entry := func(n int) {
		t.Helper()
		p.Apply(t, "more.yaml", strings.ReplaceAll(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: more, namespace: shop}
spec: {hosts: [more.example], resolution: STATIC, ports: [{number: PORT, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.9}]}
`, "PORT", strconv.Itoa(7000+n)))
	}
	live := func(state, detail string) {
		t.Helper()
		rig.Eventually(t, func() error {
			got := read[page.Live](t, p, "/debug/livez?kind=ServiceEntry&namespace=shop&name=more")
			if found := got.State == state && (detail == "") == (len(got.Behind) == 0) && got.Warming == len(got.Behind); !found ||
				detail != "" && (got.Behind[0].State != page.ProxyWarming || got.Behind[0].Detail != detail || got.Behind[0].Since == nil) {
				return fmt.Errorf("%+v, want %s %q", got, state, detail)
			}
			return nil
		})
	}
	report := func(text string) {
		t.Helper()
		if err := web.Report(warming.ReportType, text); err != nil {
			t.Fatal(err)
		}
	}
	const checking = "its agent has not asked it since the last acknowledgement"
	entry(1)
	live(page.LiveAcknowledged, "")
	before := p.Discovery.LastTurn().Version
	report("unknown")
	live(page.LiveWarming, checking)
	report("listeners=1 clusters=2")
	live(page.LiveWarming, "listeners: 1, clusters: 2")
	report("listeners=1 clusters=-1") // does not count
	live(page.LiveWarming, "listeners: 1, clusters: 2")
	all := read[[]page.ProxySync](t, p, "/debug/syncz")
	if w := all[0].Warming; w == nil || w.Listeners != 1 || w.Clusters != 2 || w.Unknown || w.Since == nil {
		t.Errorf("syncz has %+v", all[0])
	}
	report("")
	live(page.LiveYes, "")
	if now := p.Discovery.LastTurn().Version; now != before {
		t.Errorf("reports made turn %d of turn %d", now, before)
	}
	entry(2) // the last report is older than this acknowledgement
	live(page.LiveWarming, checking)
	report("")
	live(page.LiveYes, "")
	web.Reconnect(t) // another stream, without reports
	live(page.LiveAcknowledged, "")
	report("untold")
	live(page.LiveAcknowledged, "")
	p.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "3"))
	if got := read[page.Live](t, p, "/debug/livez?kind=VirtualService&namespace=shop&name=reviews"); got.State != page.LiveYes {
		t.Errorf("nothing of a route warms: %+v", got)
	}
}

// TestHistoryIsKept: a control plane that starts again remembers earlier turns, and counts on; also one that was killed.
func TestHistoryIsKept(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	o := plane.Options()
	o.ClusterDir = t.TempDir()
	first := plane.Start(t, o)
	first.Apply(t, "mesh.yaml", reviews)
	web := first.Connect(t, plane.Proxy{Name: "web-1"})
	first.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "3"))
	const of = "/debug/historyz?kind=vs&namespace=shop&name=reviews&most=100"
	before := read[[]page.Turn](t, first, of)
	if len(before) != 1 || before[0].Acks == 0 {
		t.Fatalf("before: %+v", before)
	}
	file := filepath.Join(o.ClusterDir, "history.json")
	rig.Eventually(t, func() error { // written while it runs, for a process that is killed
		text, err := os.ReadFile(file)
		if err == nil && !bytes.Contains(text, []byte(`"name":"reviews"`)) {
			err = errors.New("the rule is not there yet")
		}
		return err
	})
	killed := t.TempDir()
	text, err := os.ReadFile(file)
	if err != nil || os.WriteFile(filepath.Join(killed, "history.json"), text, 0o600) != nil {
		t.Fatal(err)
	}
	last := first.Discovery.LastTurn().Version
	web.Disconnect()
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{o.ClusterDir, killed} {
		o.ClusterDir = dir
		p := plane.Start(t, o)
		p.Apply(t, "mesh.yaml", reviews)
		p.Connect(t, plane.Proxy{Name: "web-1"})
		p.Apply(t, "rule.yaml", strings.ReplaceAll(rule, "SECONDS", "4"))
		after := read[[]page.Turn](t, p, of)
		if len(after) != 2 || !reflect.DeepEqual(after[0], before[0]) || after[1].Number <= last {
			t.Errorf("after turn %d: %+v\nwant first %+v", last, after, before[0])
		}
		got := read[page.Live](t, p, "/debug/livez?kind=vs&namespace=shop&name=reviews")
		if got.State != page.LiveYes || got.Turn != after[1].Number {
			t.Errorf("after the start: %+v", got)
		}
		all := read[[]page.Turn](t, p, "/debug/historyz?most=100")
		starts := 0
		for i, turn := range all {
			if turn.Start {
				starts++
			}
			if i > 0 && turn.Number <= all[i-1].Number {
				t.Errorf("turn %d comes after turn %d", turn.Number, all[i-1].Number)
			}
		}
		if starts != 2 {
			t.Errorf("%d starts in %+v", starts, all)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestCallersAccount: a caller that is named by its service account has an identity in the trust domain of the mesh.
func TestCallersAccount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(file, []byte("trustDomain: other.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := plane.Options()
	opts.MeshConfig = file
	p := plane.Start(t, opts)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p.Apply(t, "mesh.yaml", reviews)
	p.Apply(t, "policy.yaml", `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec: {rules: [{from: [{source: {principals: [other.example/ns/shop/sa/web]}}]}]}
`)
	p.Connect(t, plane.Proxy{Name: "reviews-1", IP: "10.0.0.12"})
	const path = "/debug/explainz?proxyID=reviews-1.shop&direction=inbound&host=reviews&port=80&path=/&sni=reviews&alpn=istio-http/1.1"
	for query, want := range map[string]string{
		"&account=shop/web": "forwarded", "&account=shop/till": "answered",
		"&account=shop/web&peer=spiffe://cluster.local/ns/shop/sa/web": "forwarded",
		"&peer=spiffe://cluster.local/ns/shop/sa/web":                  "closed",
	} {
		if got := read[page.RequestExplanation](t, p, path+query); len(got.Ways) != 1 || got.Ways[0].Outcome.Kind != want {
			t.Errorf("%s: want %s, got %s", query, want, got.Text)
		}
	}
	for _, bad := range []string{"shop", "shop/", "/web", "a/b/c"} {
		if status, _, body := ask(t, p, http.MethodGet, path+"&account="+bad); status != http.StatusBadRequest ||
			!strings.Contains(body, "NAMESPACE/SERVICE-ACCOUNT") {
			t.Errorf("account %s: %d %s", bad, status, body)
		}
	}
}
