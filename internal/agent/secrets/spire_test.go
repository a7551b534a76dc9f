package secrets_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"

	"fairway/internal/identity"
	"fairway/internal/identity/ca"
)

// spire is a workload API that gives what it is handed.
type spire struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	give chan *workload.X509SVIDResponse
}

func (s spire) FetchX509SVID(_ *workload.X509SVIDRequest, wire grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	for {
		select {
		case r := <-s.give:
			if err := wire.Send(r); err != nil {
				return err
			}
		case <-wire.Context().Done():
			return nil
		}
	}
}

// svid makes a certificate as SPIRE hands it out.
func (w *world) svid(t *testing.T, id identity.ID) *workload.X509SVIDResponse {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := w.ca.Sign(&x509.CertificateRequest{PublicKey: k.Public()}, ca.Grant{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	root, _ := pem.Decode(w.ca.Roots())
	return &workload.X509SVIDResponse{
		Svids: []*workload.X509SVID{{SpiffeId: id.String(), X509Svid: signed.Leaf.Raw, X509SvidKey: key, Bundle: root.Bytes}},
	}
}

// TestSPIRE: certificates of the workload API reach the proxy, except those for another workload.
func TestSPIRE(t *testing.T) {
	w := newWorld(t)
	api := spire{give: make(chan *workload.X509SVIDResponse)}
	server := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, api)
	socket := filepath.Join(w.dir, "spire.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })

	o := w.options(t)
	o.Authority, o.SPIRE, o.ID = nil, socket, web
	s := run(t, o)
	api.give <- w.svid(t, identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "db"})
	w.log.Await(t, "this workload is spiffe://cluster.local/ns/shop/sa/web")
	if s.Ready() == nil {
		t.Error("ready with somebody else's certificate")
	}
	api.give <- w.svid(t, web)
	p := connect(t, o.Socket).ask("default")
	one := leafOf(t, p.next())
	api.give <- w.svid(t, web)
	if two := leafOf(t, p.next()); two.Equal(one) || two.URIs[0].String() != web.String() {
		t.Errorf("%v", two.URIs)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	root := connect(t, o.Socket).ask("ROOTCA").next().GetValidationContext().GetTrustedCa().GetInlineBytes()
	if string(root) != string(w.ca.Roots()) {
		t.Errorf("roots %s", root)
	}
}

// TestSPIREThatIsNotThere: a missing SPIRE is logged, and asked again.
func TestSPIREThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	o := w.options(t)
	o.Authority, o.SPIRE = nil, filepath.Join(w.dir, "none.sock")
	s := run(t, o)
	w.log.Await(t, "SPIFFE workload API at unix://"+o.SPIRE)
	if s.Ready() == nil {
		t.Error("ready")
	}
}
