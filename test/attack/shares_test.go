package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

type deltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

// openNode opens a stream of a proxy, and reads and acknowledges the first response.
func openNode(ctx context.Context, conn *grpc.ClientConn, x plane.Proxy) (deltaStream, error) {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: x.Node(), TypeUrl: ads.ClusterType}) // Recv says how it ended
	first, err := stream.Recv()
	if err == nil {
		_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ads.ClusterType, ResponseNonce: first.GetNonce()})
	}
	return stream, err
}

// TestStreamsOfOneCertificate: a certificate that takes every stream loses its newest ones to others, one for each that comes; once all
// have come, it is refused, and the streams of the others stay.
func TestStreamsOfOneCertificate(t *testing.T) {
	const most, others = 24, 8
	opts := plane.SecureOptions(t)
	opts.MaxStreams, opts.NewStreams = most, 10_000
	p := plane.Start(t, opts)
	evil := p.JoinAs(t, "evil", "web")
	conn := p.Dial(t, evil)
	var taken []deltaStream
	for n := range most {
		s, err := openNode(within(t), conn, plane.Proxy{Namespace: "evil", Name: fmt.Sprint("web-", n)})
		if err != nil {
			t.Fatalf("stream %d: %v", n, err)
		}
		taken = append(taken, s)
	}
	var honest []deltaStream
	for n := range others {
		account := fmt.Sprint("account-", n)
		s, err := openNode(within(t), p.Dial(t, p.JoinAs(t, "shop", account)), plane.Proxy{Namespace: "shop", Name: account})
		if err != nil {
			t.Fatalf("%s does not get in: %v", account, err)
		}
		honest = append(honest, s)
		if _, err := taken[most-1-n].Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the newest stream of who has most ends with %v", err)
		}
	}
	for n := range 2 * most {
		x := plane.Proxy{Namespace: "evil", Name: fmt.Sprint("again-", n)}
		if _, err := openNode(within(t), conn, x); status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("one more of who has most: %v", err)
		}
	}
	_, page, err := rig.Call(http.MethodGet, p.URL("/debug/syncz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range honest {
		if account := fmt.Sprint("account-", n); !strings.Contains(page, account) {
			t.Errorf("the stream of %s has ended", account)
		}
	}
}

// guessed returns a token that no issuer made, and that claims to be a pod's.
func guessed(t *testing.T, n int) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("k", 32))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://kubernetes.default.svc", Subject: "system:serviceaccount:shop:web", ID: fmt.Sprint(n),
		Audience: jwt.Audience{"istio-ca"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).Claims(map[string]any{"kubernetes.io": map[string]any{
		"namespace": "shop", "serviceaccount": map[string]any{"name": "web", "uid": "u"},
	}}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestGuessedTokensAtThePages: the pages with TLS have the API server review a bounded number of tokens that one address guesses, and
// the log tells a bounded number of them, while a certificate from there is let in.
func TestGuessedTokensAtThePages(t *testing.T) {
	var reviews atomic.Int64
	own := httptest.NewTLSServer(&cluster{hostile: func(w http.ResponseWriter, r *http.Request, resource string, _ bool) bool {
		if resource != "tokenreviews" {
			return false
		}
		reviews.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": map[string]any{"error": "nobody's"},
		})
		return true
	}})
	t.Cleanup(func() {
		own.CloseClientConnections()
		own.Close()
	})
	var log rig.Log
	opts := pagesOptions(t)
	opts.Registries, opts.Kubeconfig = []string{"Kubernetes"}, rig.Write(t, rig.Folder(t), "kubeconfig", []byte(kubeconfigOf(own)))
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := plane.Start(t, opts)
	pair := workloadPair(t, p, "shop", "web")
	base := "https://" + p.Discovery.HTTPSAddr()
	trust := &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	known := trust.Clone()
	known.Certificates = []tls.Certificate{pair}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	defer client.CloseIdleConnections()
	began, refused := time.Now(), map[int]int{}
	const tokens = 400
	for n := range tokens {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/debug/syncz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+guessed(t, n))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		refused[resp.StatusCode]++
	}
	took := time.Since(began)
	most := 50 + int64(5*took.Seconds()) + 5
	if refused[http.StatusOK] > 0 || reviews.Load() == 0 || reviews.Load() > most {
		t.Errorf("%d guesses in %s became %d reviews, want 1 to %d; answers: %v", tokens, took, reviews.Load(), most, refused)
	}
	if lines := int64(strings.Count(log.String(), "\n")); lines > 2*most+100 {
		t.Errorf("%d guesses in %s became %d lines of the log", tokens, took, lines)
	}
	if code, text := (visitor{base, known}).ask(t, "/debug/syncz"); code != http.StatusOK {
		t.Errorf("a certificate from the same address: %d %.200s", code, text)
	}
}
