package registry_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	mcp "istio.io/api/mcp/v1alpha1"

	"fairway/internal/identity"
	"fairway/internal/identity/ca"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/registry/mcpserver"
	"fairway/test/rig"
)

// pushing is a source of MCP that connects to its sink, written from the protocol's definition alone.
type pushing struct {
	t        *testing.T
	protocol mcpserver.Protocol
	stream   grpc.ClientStream
	cut      context.CancelFunc
}

// push connects as a source does.
func push(t *testing.T, conn *grpc.ClientConn) *pushing {
	t.Helper()
	ctx, cut := context.WithTimeout(t.Context(), rig.Bound)
	t.Cleanup(cut)
	protocol := mcpserver.New(t)
	return &pushing{t, protocol, protocol.Push(t, ctx, conn), cut}
}

// begin answers the sink's first requests: ServiceEntries with some, the other collections with nothing. It returns the ServiceEntries that
// the sink said it holds.
func (p *pushing) begin(entries ...*mcp.Resource) (held map[string]string) {
	p.t.Helper()
	for {
		r, err := p.protocol.Receive(p.stream)
		if err != nil {
			p.t.Fatal(err)
		}
		if r.Nonce != "" {
			continue
		}
		a := mcpserver.Answer{Collection: r.Collection, Nonce: "first", Incremental: true}
		if r.Collection == mcpEntries {
			a.Resources, held = entries, r.Initial
		}
		p.send(a)
		if r.Collection == "istio/mesh/v1alpha1/MeshConfig" {
			return held
		}
	}
}

func (p *pushing) send(a mcpserver.Answer) {
	p.t.Helper()
	if err := p.protocol.Send(p.stream, a); err != nil {
		p.t.Fatal(err)
	}
}

// tell sends ServiceEntries that are new or other than before, and returns what the sink refuses of them.
func (p *pushing) tell(nonce string, removed []string, entries ...*mcp.Resource) (refused string) {
	p.t.Helper()
	p.send(mcpserver.Answer{Collection: mcpEntries, Nonce: nonce, Incremental: true, Resources: entries, Removed: removed})
	for {
		r, err := p.protocol.Receive(p.stream)
		if err != nil {
			p.t.Fatal(err)
		}
		if r.Collection == mcpEntries && r.Nonce == nonce {
			return r.Error
		}
	}
}

// ended returns the status of the stream's end.
func (p *pushing) ended() codes.Code {
	for {
		if _, err := p.protocol.Receive(p.stream); err != nil {
			return status.Code(err)
		}
	}
}

// refused waits until a stream of a caller's is refused with a status. A control plane that was just started asks callers to come again.
func refused(t *testing.T, who string, conn *grpc.ClientConn, want codes.Code) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got := push(t, conn).ended(); got != want {
			return fmt.Errorf("%s is answered with %s, want %s", who, got, want)
		}
		return nil
	})
}

// plain connects to the plaintext address.
func plain(t *testing.T, p *plane.Plane) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// fresh says which sources are behind.
func fresh(p *plane.Plane) error {
	if behind := p.Discovery.Behind(); len(behind) > 0 {
		return fmt.Errorf("%v", behind)
	}
	return nil
}

const mcpGalley = "configSources: [{address: 'mcp-sink://galley', tlsSettings: {mode: ISTIO_MUTUAL, " +
	"subjectAltNames: ['spiffe://cluster.local/ns/galley/sa/galley']}}]"

// TestMCPPushed: a source connects with its certificate and pushes; the control plane has waited for it with its start. Changes are served,
// invalid resources are refused, and removed ones go. It is cut off, and comes back: all stays, and nothing is sent again. Strangers are
// refused, whatever they show. Once the mesh configuration does not name the source, its resources go.
func TestMCPPushed(t *testing.T) {
	const host = "reviews.shop.svc.cluster.local"
	opts := plane.SecureOptions(t)
	opts.ClusterDir = t.TempDir()
	opts.MeshConfig = mcpMesh(t, mcpGalley)
	p := plane.Run(t, opts)
	own := p.JoinAs(t, "galley", "galley")
	refused(t, "another service account", p.Dial(t, p.JoinAs(t, "galley", "other")), codes.PermissionDenied)
	refused(t, "one who shows nothing", p.Dial(t, nil), codes.PermissionDenied)
	refused(t, "this machine in plaintext", plain(t, p), codes.PermissionDenied)
	select {
	case <-p.Discovery.Synced():
		t.Error("the start does not wait for what is pushed")
	default:
	}

	s := push(t, p.Dial(t, own))
	if held := s.begin(mcpEntry(t, "shop/reviews", "1", host, "10.0.0.1")); len(held) > 0 {
		t.Errorf("at first the sink holds %v", held)
	}
	<-p.Discovery.Synced()
	client := p.Connect(t, plane.Proxy{Name: "web-1", Secrets: true})
	if err := errors.Join(mcpServed(client, mcpReviews, "10.0.0.1:80"), fresh(p)); err != nil {
		t.Error(err)
	}
	if why := s.tell("second", nil, mcpEntry(t, "shop/reviews", "2", host, "10.0.0.2")); why != "" {
		t.Errorf("what is valid is refused: %s", why)
	}
	rig.Eventually(t, func() error { return mcpServed(client, mcpReviews, "10.0.0.2:80") })
	if why := s.tell("third", nil, mcpEntry(t, "shop/bad", "1", "*", "10.0.0.9")); !strings.Contains(why, "shop/bad") {
		t.Errorf("what is not valid is refused by %q", why)
	}
	gone := mcpEntry(t, "shop/cart", "1", "cart.shop.svc.cluster.local", "10.0.1.1")
	const carts = "outbound|80||cart.shop.svc.cluster.local"
	s.tell("fourth", nil, gone)
	rig.Eventually(t, func() error { return mcpServed(client, carts, "10.0.1.1:80") })
	s.tell("fifth", []string{"shop/cart", "shop/bad"})
	without := func(cluster string) func() error {
		return func() error {
			if slices.Contains(client.Names(ads.ClusterType), cluster) {
				return fmt.Errorf("%s is still there", cluster)
			}
			return nil
		}
	}
	rig.Eventually(t, without(carts))

	p.Settle(t)
	client.TakeTotals()
	s.cut()
	rig.Eventually(t, func() error {
		if behind := p.Discovery.Behind(); len(behind) != 1 || !strings.HasPrefix(behind[0], "mcp-sink://galley is stale") {
			return fmt.Errorf("while the source is away there is behind: %v", behind)
		}
		return nil
	})
	s = push(t, p.Dial(t, own))
	if held := s.begin(); len(held) != 1 || held["shop/reviews"] != "2" {
		t.Errorf("after a break the sink says that it holds %v", held)
	}
	rig.Eventually(t, func() error { return fresh(p) })
	p.Settle(t)
	if got := client.TakeTotals(); got.Resources+got.Removed != 0 {
		t.Errorf("once the source is back with the same, %+v is sent", got)
	}
	next := push(t, p.Dial(t, own))
	if got := s.ended(); got != codes.Aborted {
		t.Errorf("once a newer stream has come the older one ends with %s", got)
	}
	next.begin()

	write := func(text string) {
		path := opts.MeshConfig + ".next"
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Rename(path, opts.MeshConfig)); err != nil {
			t.Fatal(err)
		}
	}
	write("configSources: []")
	if got := next.ended(); got != codes.Unavailable {
		t.Errorf("once the source is not named its stream ends with %s", got)
	}
	rig.Eventually(t, without(mcpReviews))
	refused(t, "a source that is not named", p.Dial(t, own), codes.PermissionDenied)
	write(mcpGalley)
	rig.Eventually(t, func() error {
		_, err := next.protocol.Receive(push(t, p.Dial(t, own)).stream)
		return err
	})
}

// TestMCPPushedBeforeTheStart: what a source pushed is kept on disk, and counts after a restart before the source has come.
func TestMCPPushedBeforeTheStart(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.ClusterDir = t.TempDir()
	opts.MeshConfig = mcpMesh(t, mcpGalley)
	p := plane.Run(t, opts)
	own := p.JoinAs(t, "galley", "galley")
	refused(t, "another service account", p.Dial(t, p.JoinAs(t, "galley", "other")), codes.PermissionDenied)
	push(t, p.Dial(t, own)).begin(mcpEntry(t, "shop/reviews", "1", "reviews.shop.svc.cluster.local", "10.0.0.1"))
	<-p.Discovery.Synced()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	opts.ClusterWait = time.Millisecond
	again := plane.Start(t, opts)
	if err := mcpServed(again.Connect(t, plane.Proxy{Name: "web-1", Secrets: true}), mcpReviews, "10.0.0.1:80"); err != nil {
		t.Error(err)
	}
}

// TestMCPPushedByNobodyMore: once the identity that pushes is revoked, its stream ends, and it gets no other; its objects stay, and are
// stale.
func TestMCPPushedByNobodyMore(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.ClusterWait = time.Millisecond
	opts.MeshConfig = mcpMesh(t, mcpGalley)
	p := plane.Start(t, opts)
	id, err := identity.New("cluster.local", "galley", "galley")
	if err != nil {
		t.Fatal(err)
	}
	own := p.Join(t, id)
	s := push(t, p.Dial(t, own))
	s.begin(mcpEntry(t, "shop/reviews", "1", "reviews.shop.svc.cluster.local", "10.0.0.1"))
	rig.Eventually(t, func() error { return fresh(p) })
	if _, err := ca.NewRevocations(opts.Identity.CA.State, time.Now).RevokeIdentity(id, "it left"); err != nil {
		t.Fatal(err)
	}
	if got := s.ended(); got != codes.Unauthenticated {
		t.Errorf("the stream of a revoked identity ends with %s", got)
	}
	refused(t, "a revoked identity", p.Dial(t, own), codes.Unauthenticated)
	if len(p.Discovery.Behind()) != 1 {
		t.Errorf("nobody says that the source is away: %v", p.Discovery.Behind())
	}
	if err := mcpServed(p.Connect(t, plane.Proxy{Name: "web-1", Secrets: true}), mcpReviews, "10.0.0.1:80"); err != nil {
		t.Error(err)
	}
}

// otherAuthority is one that is not one of the mesh's.
type otherAuthority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newOtherAuthority(t *testing.T) *otherAuthority {
	t.Helper()
	a := &otherAuthority{t: t}
	pair := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign makes a certificate of an hour; without an authority, its own.
func (a *otherAuthority) sign(of *x509.Certificate) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	of.SerialNumber, of.NotBefore, of.NotAfter = big.NewInt(1), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), with)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestMCPWhoMayPush: the caller's certificate, of the mesh or of another authority, decides for which entry it pushes; in plaintext, this
// machine may push if an entry says so.
func TestMCPWhoMayPush(t *testing.T) {
	other, stranger := newOtherAuthority(t), newOtherAuthority(t)
	path := rig.Write(t, t.TempDir(), "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.cert.Raw}))
	opts := plane.SecureOptions(t)
	opts.ClusterWait = time.Millisecond
	opts.MeshConfig = mcpMesh(t, `
configSources:
- {address: "mcp-sink://mesh", tlsSettings: {mode: ISTIO_MUTUAL, subjectAltNames: ["spiffe://cluster.local/ns/galley/sa/galley"]}}
- address: "mcp-sink://other"
  tlsSettings: {mode: MUTUAL, caCertificates: "`+path+`", subjectAltNames: [galley.example, "spiffe://else/g"]}
- {address: "mcp-sink://here", tlsSettings: {mode: DISABLE}}
- {address: "mcp-sink://bad", tlsSettings: {mode: MUTUAL, caCertificates: /no/such/file, subjectAltNames: [galley.example]}}
`)
	p := plane.Start(t, opts)
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	spiffe := &url.URL{Scheme: "spiffe", Host: "else", Path: "/g"}
	show := func(pair *tls.Certificate) credentials.TransportCredentials { return p.Credentials(pair) }
	for _, c := range []struct {
		name  string
		shown credentials.TransportCredentials
		as    string // empty: refused
		code  codes.Code
	}{
		{"an identity of the mesh", show(p.JoinAs(t, "galley", "galley")), "mesh", 0},
		{"another's host", show(other.sign(&x509.Certificate{DNSNames: []string{"x", "Galley.example"}, ExtKeyUsage: client})), "other", 0},
		{"another's identity", show(other.sign(&x509.Certificate{URIs: []*url.URL{spiffe}, ExtKeyUsage: client})), "other", 0},
		{"this machine", insecure.NewCredentials(), "here", 0},
		{"another host of another's", show(other.sign(&x509.Certificate{DNSNames: []string{"x.galley.example"}, ExtKeyUsage: client})),
			"", codes.Unauthenticated},
		{"a wildcard", show(other.sign(&x509.Certificate{DNSNames: []string{"*.example"}, ExtKeyUsage: client})),
			"", codes.Unauthenticated},
		{"a server", show(other.sign(&x509.Certificate{
			DNSNames: []string{"galley.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})), "", codes.Unauthenticated},
		{"the name by a stranger's authority", show(stranger.sign(&x509.Certificate{
			DNSNames: []string{"galley.example"}, ExtKeyUsage: client,
		})), "", codes.Unauthenticated},
		{"an identity that is not named", show(p.JoinAs(t, "istio-system", "istiod")), "", codes.PermissionDenied},
		{"nobody", show(nil), "", codes.PermissionDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := p.Discovery.SecureAddr()
			if c.as == "here" {
				address = p.Address()
			}
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c.shown))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if c.as == "" {
				refused(t, c.name, conn, c.code)
				return
			}
			behind := func(want bool) func() error {
				return func() error {
					all := p.Discovery.Behind()
					has := slices.ContainsFunc(all, func(one string) bool { return strings.HasPrefix(one, "mcp-sink://"+c.as+" is ") })
					if has != want {
						return fmt.Errorf("behind there is %v", all)
					}
					return nil
				}
			}
			rig.Eventually(t, behind(true))
			push(t, conn).begin()
			rig.Eventually(t, behind(false))
		})
	}
	rig.Eventually(t, func() error {
		if behind := strings.Join(p.Discovery.Behind(), " "); !strings.Contains(behind, "mcp-sink://bad is late") {
			return fmt.Errorf("nobody says that a file of authorities cannot be read: %s", behind)
		}
		return nil
	})
}
