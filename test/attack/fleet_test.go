package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"fairway/test/plane"
)

// fleetSize is how many proxies come back at once. FAIRWAY_FLEET=2000 measures as many as docs/security.md says.
func fleetSize(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("FAIRWAY_FLEET"))
	if err != nil {
		return 400
	}
	return n
}

// fleetPlane starts a control plane at an address that is not loopback, so that limits by address apply.
func fleetPlane(t *testing.T) (p *plane.Plane, plain, secure string) {
	t.Helper()
	from := outward(t)
	opts := plane.SecureOptions(t)
	opts.GRPCAddr, opts.SecureAddr = "0.0.0.0:0", "0.0.0.0:0"
	p = plane.Start(t, opts)
	return p, net.JoinHostPort(from, portOf(t, p.Address())), net.JoinHostPort(from, portOf(t, p.Discovery.SecureAddr()))
}

// comeBack has n proxies open a connection and a stream each, at once and from one address. Like Envoy, a refused one pauses for a random
// time, whose bound doubles. comeBack returns how often one was refused until it was answered, and how long that took all of them.
func comeBack(t *testing.T, n int, to string, shown func(i int) (plane.Proxy, credentials.TransportCredentials)) (int64, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var refused atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		all.Go(func() {
			x, creds := shown(i)
			conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { conn.Close() })
			for pause := 500 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 30*time.Second) {
				_, err := openNode(context.WithoutCancel(ctx), conn, x)
				if err == nil {
					return
				}
				refused.Add(1)
				if refused.Load() < 5 {
					t.Logf("%s: %v", x.Name, err)
				}
				select {
				case <-time.After(rand.N(pause)):
				case <-ctx.Done():
				}
			}
			t.Errorf("%s is not back", x.Name)
		})
	}
	all.Wait()
	return refused.Load(), time.Since(began)
}

// TestCertificatesBehindOneAddressComeBack: all proxies of a cluster that one address hides reconnect to a control plane that has just
// started, and none is refused, because certificates are verified without a request to another server.
func TestCertificatesBehindOneAddressComeBack(t *testing.T) {
	p, _, secure := fleetPlane(t)
	const accounts = 50
	var configs [accounts]credentials.TransportCredentials
	for i := range configs {
		pair := workloadPair(t, p, "shop", fmt.Sprint("account-", i))
		configs[i] = credentials.NewTLS(&tls.Config{
			RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc", Certificates: []tls.Certificate{pair},
		})
	}
	n := fleetSize(t)
	refused, took := comeBack(t, n, secure, func(i int) (plane.Proxy, credentials.TransportCredentials) {
		return plane.Proxy{Namespace: "shop", Name: fmt.Sprint("web-", i)}, configs[i%accounts].Clone()
	})
	if refused > 0 {
		t.Errorf("%d of %d proxies were refused", refused, n)
	}
	t.Logf("%d proxies with certificates are back after %v", n, took)
}

// TestPlaintextBehindOneAddressComesBack: proxies that prove nothing wait for their address's share, and all come back.
func TestPlaintextBehindOneAddressComesBack(t *testing.T) {
	_, plain, _ := fleetPlane(t)
	n := fleetSize(t)
	refused, took := comeBack(t, n, plain, func(i int) (plane.Proxy, credentials.TransportCredentials) {
		return plane.Proxy{Namespace: "shop", Name: fmt.Sprint("web-", i)}, insecure.NewCredentials()
	})
	if refused > int64(n) {
		t.Errorf("%d proxies were refused %d times until they were back", n, refused)
	}
	t.Logf("%d proxies in plaintext are back after %v, with %d refusals", n, took, refused)
}
