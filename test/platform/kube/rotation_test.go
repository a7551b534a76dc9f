package kube_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/agent/secrets"
	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// rotating is an agent with a token on disk that its platform replaces.
type rotating struct {
	*secrets.Secrets
	dir  string
	conn *grpc.ClientConn // to the control plane, as its proxy has one
}

// replace replaces the token as a kubelet does: whole, at once.
func (a *rotating) replace(t *testing.T, token string) {
	t.Helper()
	next := rig.Write(t, a.dir, "next", []byte(token))
	if err := os.Rename(next, filepath.Join(a.dir, "token")); err != nil {
		t.Fatal(err)
	}
}

// serial is that of the certificate in force.
func (a *rotating) serial(t *testing.T) string {
	t.Helper()
	for _, c := range a.Status() {
		if c.Name == secrets.DefaultName {
			return c.Serial
		}
	}
	t.Fatal("the agent has no certificate")
	return ""
}

// renew asks for a certificate now. The first one is asked for without that.
func (a *rotating) renew(t *testing.T) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), rig.Bound)
	defer stop()
	return a.Renew(ctx)
}

// stream opens a stream of the proxy's, on the connection that there is, and returns once it is answered.
func (a *rotating) stream(t *testing.T) (discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*rig.Bound) // no stream is waited for without end
	t.Cleanup(stop)
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(a.conn).DeltaAggregatedResources(ctx)
	if err == nil {
		node := plane.Proxy{Name: "web-1", IP: "10.3.0.1"}.Node()
		node.Metadata.Fields["CLUSTER_ID"] = structpb.NewStringValue("east")
		err = s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: xdstype.BundleURL})
	}
	if err == nil {
		_, err = s.Recv()
	}
	return s, err
}

func startRotating(t *testing.T, p *plane.Plane, token string) *rotating {
	t.Helper()
	a := &rotating{dir: t.TempDir()}
	authority := &secrets.Authority{
		Addresses: []string{p.Discovery.SecureAddr()}, Token: rig.Write(t, a.dir, "token", []byte(token)),
		Roots: rig.Write(t, a.dir, "root.pem", p.Discovery.Authority().Roots()),
	}
	var err error
	if a.Secrets, err = secrets.New(secrets.Options{
		Socket: filepath.Join(a.dir, "sds"), Now: time.Now, Log: slog.New(slog.DiscardHandler), Authority: authority,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := a.Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
	rig.Eventually(t, func() error {
		for _, c := range a.Status() {
			if c.Name == secrets.DefaultName && c.Serial != "" {
				return nil
			}
		}
		return errors.New("no certificate yet")
	})
	as := a.DialOptions("istiod.istio-system.svc")
	if a.conn, err = grpc.NewClient("passthrough:///"+authority.Addresses[0], as...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.conn.Close() })
	return a
}

// TestTokensAreReplaced: an agent shows the token that is on disk, each time that it asks for a certificate or opens a stream. A token that
// has ended is refused soon after its end, though the API server and the control plane both remember it, and so is a token of a deleted
// pod. Neither ends the certificate in force, nor a stream, and the next token is used at once.
func TestTokensAreReplaced(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	account := c.Apply(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: shop}}")[0]
	pods := c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {serviceAccountName: web, containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop}
spec: {serviceAccountName: web, containers: [{name: web, image: web}]}
`)
	secure, o := plane.SecureOptions(t), options(t, c, nil)
	o.SecureAddr, o.Identity = secure.SecureAddr, secure.Identity
	p := plane.Start(t, o)

	// The API server takes a token for a minute past its end, and remembers that for ten seconds: of both some is over.
	const life = -50 * time.Second
	begun := time.Now()
	a := startRotating(t, p, c.PodToken(t, pods[0], account, "istio-ca", life))
	kept, err := a.stream(t)
	if err != nil {
		t.Fatal(err)
	}

	for {
		err := a.renew(t)
		if status.Code(err) == codes.Unauthenticated {
			break
		}
		if after := time.Since(begun) - life; after > 95*time.Second {
			t.Fatalf("%s after its token has ended the agent is given certificates still: %v", after, err)
		}
		<-time.After(200 * time.Millisecond) // callers are limited
	}
	t.Logf("a token is refused %s after its end", time.Since(begun)-life)
	last := a.serial(t)
	if _, err := a.stream(t); err != nil { // by the certificate, which is shown beside the token
		t.Errorf("a stream while the token has ended and the certificate has not: %v", err)
	}
	a.replace(t, c.PodToken(t, pods[0], account, "istio-ca", time.Hour))
	if err := a.renew(t); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	if now := a.serial(t); now == last {
		t.Errorf("the certificate is the one of before: %s", now)
	}

	c.Delete(t, "{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop}}")
	a.replace(t, c.PodToken(t, pods[1], account, "istio-ca", time.Hour))
	last = a.serial(t)
	if err := a.renew(t); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the token of a pod that is gone: %v", err)
	}
	if now := a.serial(t); now != last {
		t.Errorf("a refusal took the certificate away: %s, then %s", last, now)
	}
	a.replace(t, accountToken(t, c, "shop", "web", "istio-ca", `, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}`))
	if err := a.renew(t); err != nil {
		t.Errorf("with a token as kubelets have them made: %v", err)
	}

	// The stream of the first certificate has seen none of it.
	if err := kept.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.ClusterURL}); err != nil {
		t.Error(err)
	}
	if _, err := kept.Recv(); err != nil {
		t.Errorf("the stream that was there all the time: %v", err)
	}
}
