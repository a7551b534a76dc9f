package attack

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/test/plane"
)

// dialFrom connects from one of this machine's many loopback addresses.
func dialFrom(t *testing.T, from, to string, config *tls.Config) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if config == nil {
		c, err = dialer.Dial("tcp", to)
	} else {
		c, err = tls.DialWithDialer(dialer, "tcp", to, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// stranger is the n-th address that is not the API server's.
func stranger(n int) string { return fmt.Sprintf("127.0.0.%d", 2+n%4) }

// TestSlowReadersDoNotMakeUnready: connections of four addresses that pipeline /metrics and read nothing leave /ready as it was.
func TestSlowReadersDoNotMakeUnready(t *testing.T) {
	p := plane.Start(t, pagesOptions(t))
	at := net.JoinHostPort("127.0.0.1", portOf(t, p.Discovery.HTTPAddr()))
	for n := range 160 {
		c := dialFrom(t, stranger(n), at, nil)
		fmt.Fprint(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 100))
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for range 20 {
		for _, path := range []string{"/ready", "/healthz/ready", "/version"} {
			resp, err := client.Get("http://" + at + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", path, resp.Status)
			}
		}
	}
}

// webhookPlane is a control plane with webhooks.
func webhookPlane(t *testing.T) (at string, trust *tls.Config) {
	t.Helper()
	opts := pagesOptions(t)
	opts.InjectFolder = t.TempDir()
	if err := os.WriteFile(filepath.Join(opts.InjectFolder, "values"), []byte("global: {hub: edge}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, opts)
	trust = &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	return net.JoinHostPort("127.0.0.1", portOf(t, p.Discovery.HTTPSAddr())), trust
}

// reviews asks both webhooks as an API server does; each answer must be one.
func reviews(t *testing.T, at string, trust *tls.Config, times int) {
	t.Helper()
	pod := reviewOf(t, "", "Pod", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"web","image":"web"}]}}`)
	rule := reviewOf(t, "networking.istio.io", "Sidecar",
		`{"kind":"Sidecar","apiVersion":"networking.istio.io/v1","metadata":{"name":"x"},"spec":{"egress":[{"hosts":["*/*"]}]}}`)
	for range times {
		for path, body := range map[string][]byte{"/inject": pod, "/validate": rule} {
			began := time.Now()
			code, text := admission(t, trust, "https://"+at+path, body)
			if code != http.StatusOK || !strings.Contains(string(text), `"allowed":true`) {
				t.Fatalf("%s: %d %.300s", path, code, text)
			}
			t.Logf("%s took %s", path, time.Since(began))
		}
	}
}

// TestSlowReviewsDoNotKeepTheAPIServerOut: four addresses send requests with bodies that never arrive, small ones and large ones.
func TestSlowReviewsDoNotKeepTheAPIServerOut(t *testing.T) {
	at, trust := webhookPlane(t)
	slow := func(n int) {
		path, sent := "/inject", "{"
		if n%2 == 0 {
			path, sent = "/validate", strings.Repeat(" ", 300<<10)
		}
		c := dialFrom(t, stranger(n/2), at, trust)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n%s", path, sent)
	}
	for n := range 300 {
		slow(n)
	}
	reviews(t, at, trust, 10)
	large := reviewOf(t, "", "Pod", `{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"a":"`+strings.Repeat("a", 300<<10)+
		`"}},"spec":{"containers":[{"name":"web","image":"web"}]}}`)
	for range 5 {
		if code, text := admission(t, trust, "https://"+at+"/inject", large); code != http.StatusOK {
			t.Fatalf("a large review: %d %.300s", code, text)
		}
	}
}

// TestLargeReviewsDoNotKeepTheAPIServerOut: one address sends the largest objects over and over, more than are worked out at once.
func TestLargeReviewsDoNotKeepTheAPIServerOut(t *testing.T) {
	at, trust := webhookPlane(t)
	var hosts, secrets strings.Builder
	for n := range 120_000 {
		fmt.Fprintf(&hosts, `"a%d.b",`, n)
	}
	for n := range 12_000 {
		fmt.Fprintf(&secrets, `{"name":"s%d"},`, n)
	}
	bodies := map[string][]byte{
		"/validate": reviewOf(t, "networking.istio.io", "VirtualService",
			`{"kind":"VirtualService","apiVersion":"networking.istio.io/v1","metadata":{"name":"x"},"spec":{"hosts":[`+hosts.String()+
				`"b"],"http":[{"route":[{"destination":{"host":"b"}}]}]}}`),
		"/inject": reviewOf(t, "", "Pod", `{"kind":"Pod","apiVersion":"v1","spec":{"imagePullSecrets":[`+secrets.String()+
			`{"name":"s"}],"containers":[{"name":"web","image":"web"}]}}`),
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for n := range 16 {
		all.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(stranger(0))}}
			client := http.Client{Transport: &http.Transport{TLSClientConfig: trust, DialContext: dialer.DialContext}}
			defer client.CloseIdleConnections()
			path := []string{"/validate", "/inject"}[n%2]
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := client.Post("https://"+at+path, "application/json", strings.NewReader(string(bodies[path])))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	defer all.Wait()
	defer close(stop)
	reviews(t, at, trust, 10)
}
