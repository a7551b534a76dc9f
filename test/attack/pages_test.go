package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app"
	"fairway/internal/ctl"
	"fairway/internal/identity"
	"fairway/internal/identity/ca"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// pagesRules returns a service of the namespace bank, and one of the namespace shop with labels on its endpoint.
func pagesRules(t *testing.T, labels string) string {
	t.Helper()
	return rig.Text(t, "pages.yaml", rig.Pairs("labels", labels))
}

// outward returns an address of this machine that other machines can reach: connections to it are not on loopback.
func outward(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback's")
	return ""
}

func pagesOptions(t *testing.T) app.Options {
	opts := plane.Options()
	opts.SecureAddr, opts.HTTPSAddr, opts.HTTPAddr, opts.MonitorAddr = "127.0.0.1:0", "0.0.0.0:0", "0.0.0.0:0", "127.0.0.1:0"
	opts.Identity.CA.Plugged, opts.Identity.CA.State = "", t.TempDir()
	return opts
}

// workloadPair is a certificate of the plane's own authority.
func workloadPair(t *testing.T, p *plane.Plane, namespace, account string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Discovery.Authority().Sign(&x509.CertificateRequest{PublicKey: key.Public()},
		ca.Grant{ID: identity.ID{TrustDomain: "cluster.local", Namespace: namespace, ServiceAccount: account}})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{out.Leaf.Raw}, PrivateKey: key}
}

// visitor asks pages, over TLS with a certificate where it has one.
type visitor struct {
	base string
	tls  *tls.Config
}

func (v visitor) ask(t *testing.T, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: v.tls}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestPagesOfStrangers: in plaintext, another machine can read only readiness and metrics, but no debug page or
// profile. With a certificate it sees the data of its namespace, and the system namespace sees all.
func TestPagesOfStrangers(t *testing.T) {
	from := outward(t)
	p := plane.Start(t, pagesOptions(t))
	p.Apply(t, "rules.yaml", pagesRules(t, "{}"))
	p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop"})
	p.Connect(t, plane.Proxy{Name: "till-1", Namespace: "bank", IP: "10.0.0.8"})
	trust := func(pairs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc", Certificates: pairs}
	}
	https := "https://" + net.JoinHostPort(from, portOf(t, p.Discovery.HTTPSAddr()))
	stranger := visitor{base: "http://" + net.JoinHostPort(from, portOf(t, p.Discovery.HTTPAddr()))}
	nobody := visitor{https, trust()}
	shop := visitor{https, trust(workloadPair(t, p, "shop", "web"))}
	system := visitor{https, trust(workloadPair(t, p, "istio-system", "operator"))}
	local := visitor{base: "http://" + net.JoinHostPort("127.0.0.1", portOf(t, p.Discovery.HTTPAddr()))}
	for _, path := range []string{
		"/debug", "/debug/syncz", "/debug/config_dump?proxyID=web-1.shop", "/debug/configz", "/debug/caz",
		"/debug/tablez", "/debug/pprof/", "/debug/pprof/heap",
	} {
		for name, c := range map[string]struct {
			who  visitor
			want int
		}{"a stranger": {stranger, 403}, "nobody": {nobody, 401}, "system": {system, 200}, "loopback": {local, 200}} {
			if code, body := c.who.ask(t, path); code != c.want {
				t.Errorf("%s, %s: %d %.200s, want %d", name, path, code, body, c.want)
			}
		}
	}
	for _, who := range []visitor{stranger, nobody, shop} {
		for _, path := range []string{"/ready", "/healthz/ready", "/metrics"} {
			if code, body := who.ask(t, path); code != http.StatusOK {
				t.Errorf("%s%s: %d %.200s, want 200", who.base, path, code, body)
			}
		}
	}
	if _, body := stranger.ask(t, "/debug/syncz"); !strings.Contains(body, "by https on port "+portOf(t, p.Discovery.HTTPSAddr())) {
		t.Errorf("the refusal does not say where to ask: %s", body)
	}
	for path, want := range map[string]int{
		"/debug/tablez":                          403,
		"/debug/caz":                             403,
		"/debug/mesh":                            403,
		"/debug/pprof/heap":                      403,
		"/debug/config_dump?proxyID=till-1.bank": 404,
		"/debug/config_dump?proxyID=web-1.shop":  200,
	} {
		if code, body := shop.ask(t, path); code != want {
			t.Errorf("shop, %s: %d %.200s, want %d", path, code, body, want)
		}
	}
	for _, path := range []string{
		"/debug/syncz", "/debug/certz", "/debug/registryz", "/debug/endpointz", "/debug/configz", "/debug/workloadz",
		"/debug/problems", "/debug/adsz", "/debug/endpointShardz", "/debug/authorizationz", "/debug/telemetryz", "/sd?pods=true",
	} {
		code, body := shop.ask(t, path)
		if code != http.StatusOK || strings.Contains(body, "bank") || strings.Contains(body, "10.9.9.9") {
			t.Errorf("shop, %s: %d, or it sees bank's:\n%.500s", path, code, body)
		}
		if _, body := system.ask(t, path); (path == "/debug/configz" || path == "/debug/syncz") && !strings.Contains(body, "bank") {
			t.Errorf("system, %s: bank is not there:\n%.500s", path, body)
		}
	}
	askedByPilotctl(t, p, https, shop)
}

// askedByPilotctl: pilotctl shows a certificate, and names a remedy if it has none.
func askedByPilotctl(t *testing.T, p *plane.Plane, https string, shop visitor) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pair := shop.tls.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, p.Discovery.Authority().Roots(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := ctl.Command("test")
		c.SetArgs(
			append([]string{"proxy-status", "--address", https, "--cacert", roots, "--server-name", "istiod.istio-system.svc"}, args...))
		c.SetOut(&out)
		c.SetErr(io.Discard)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run("--cert", write("cert.pem", "CERTIFICATE", pair.Certificate[0]), "--key",
		write("key.pem", "PRIVATE KEY", key)); err != nil || !strings.Contains(out, "web-1.shop") ||
		strings.Contains(out, "bank") {
		t.Errorf("pilotctl with shop's certificate: %v\n%s", err, out)
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "--cert FILE and --key FILE") {
		t.Errorf("pilotctl without credentials: %v", err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a.b.c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run("--token-file", token); err == nil || !strings.Contains(err.Error(), "does not know who asks") {
		t.Errorf("pilotctl with a token of nobody's: %v", err)
	}
	if _, err := run("--address", strings.Replace(https, "https://", "http://", 1), "--cacert", "", "--server-name", "", "--token",
		token); err == nil ||
		!strings.Contains(err.Error(), "in plaintext") {
		t.Errorf("pilotctl sends a token in the clear: %v", err)
	}
}

// TestMetricsOfStrangers: whatever versions and types proxies make up, /metrics stays small, and a version is removed
// from it once no proxy has it.
func TestMetricsOfStrangers(t *testing.T) {
	opts := plane.Options()
	opts.ProxyLinger = time.Millisecond
	opts.NewStreams = 1 << 20
	p := plane.Start(t, opts)
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	page := visitor{base: "http://" + p.Discovery.HTTPAddr()}
	_, before := page.ask(t, "/metrics")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const many, staying = 2000, 40
	open := func(i int) {
		ctx, leave := context.WithCancel(ctx)
		if i < many-staying {
			defer leave()
		} else {
			t.Cleanup(leave)
		}
		stream, err := client.DeltaAggregatedResources(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		node := plane.Proxy{Name: fmt.Sprintf("odd-%d", i)}.Node()
		node.Metadata.Fields["ISTIO_VERSION"] = structpb.NewStringValue(fmt.Sprintf("made-up-%d", i))
		for _, typ := range []string{ads.ClusterType, fmt.Sprintf("type.googleapis.com/made.up.Type%d", i)} {
			if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typ}); err != nil {
				return // refused: as good
			}
		}
		_, _ = stream.Recv()
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < many; i += 8 {
				open(i)
			}
		})
	}
	group.Wait()
	_, during := page.ask(t, "/metrics")
	t.Logf("%d streams with a version and a type each: %d bytes, %d before", many, len(during), len(before))
	if n := strings.Count(during, "made-up-"); n > 32 || strings.Contains(during, "made.up") || len(during) > len(before)+64<<10 {
		t.Errorf("%d versions made up have a series; %d bytes, %d before", n, len(during), len(before))
	}
	cancel()
	rig.Eventually(t, func() error {
		if _, after := page.ask(t, "/metrics"); strings.Contains(after, "made-up-") {
			return fmt.Errorf("versions of proxies that are gone:\n%.2000s", after[strings.Index(after, "made-up-"):])
		}
		return nil
	})
}

// TestLogsAndTablesOfStrangers: the text of a stranger fills no log and no terminal, moves no cursor and makes no line or row.
func TestLogsAndTablesOfStrangers(t *testing.T) {
	log := &rig.Log{}
	opts := pagesOptions(t)
	opts.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := plane.Start(t, opts)
	const evil = "\x1b[2J\u202e\nFAKE-ROW   sidecar   SYNCED"
	p.Discovery.Problems() // problems from before
	p.Apply(t, "rules.yaml", pagesRules(t, `{app: "x"}`))
	p.Refuse(t, plane.Proxy{Name: "odd-1"}, ads.ClusterType, "outbound|80||reviews.shop.svc.cluster.local",
		"no"+evil+strings.Repeat("x", 100<<10))
	for _, args := range [][]string{
		{"proxy-status"},
		{"problems"},
		{"tables", "proxies"},
		{"proxy-status", "-o", "json"},
		{"proxy-status", "-o", "yaml"},
		{"problems", "-o", "json"},
	} {
		var out bytes.Buffer
		c := ctl.Command("test")
		c.SetArgs(append(args, "--address", "127.0.0.1:"+portOf(t, p.Discovery.HTTPAddr())))
		c.SetOut(&out)
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Errorf("pilotctl %v: %v", args, err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nFAKE-ROW") ||
			len(args) == 1 && len(text) > 32<<10 {
			t.Errorf("pilotctl %v: %d bytes\n%.600q", args, len(text), text)
		}
	}
	for _, path := range []string{
		"/debug/tablez?table=proxies", "/debug/syncz", "/debug/problems",
		"/debug/config_dump?proxyID=" + url.QueryEscape(evil),
	} {
		_, body := (visitor{base: "http://127.0.0.1:" + portOf(t, p.Discovery.HTTPAddr())}).ask(t, path)
		if strings.ContainsAny(body, "\x1b\u202e") || strings.Contains(body, "\nFAKE-ROW") {
			t.Errorf("%s:\n%.600q", path, body)
		}
	}
	for line := range strings.Lines(log.String()) {
		if len(line) > 16<<10 || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("the log has a line of %d bytes: %.300q", len(line), line)
		}
	}
}
