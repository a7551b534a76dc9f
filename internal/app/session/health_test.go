package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"fairway/internal/app/proof"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// said returns the health of a proxy's application in the graph.
func (d demand) said(id library.ProxyID) (report mesh.HealthReport, ok bool) {
	d.turn()
	d.graph.Store.Read(func(tx *table.Tx) {
		report, ok = table.Lookup(tx, d.graph.In.Health.Table, mesh.ProxyID(id))
	})
	return report, ok
}

// TestHealthIsKept: a health report survives an interruption of the stream if the agent repeats it in time. It is dropped if the
// agent stays away, or returns without a report.
func TestHealthIsKept(t *testing.T) {
	d := newDemand()
	d.opts.Grace = 10 * time.Second
	id := d.connect(t, &corev3.Node{Id: webNode})
	if _, ok := d.said(id); ok {
		t.Fatal("something is known before anything was said")
	}
	fails := xds.Report{Proxy: id, Failed: true, Detail: "refused"}
	d.Healthy(fails)
	if r, ok := d.said(id); !ok || r.Healthy || r.Detail != "refused" || r.Proxy.ID != mesh.ProxyID(id) {
		t.Fatalf("known: %+v, %t", r, ok)
	}
	d.sweep(time.Now().Add(time.Hour)) // connected, so nothing is due
	if _, ok := d.said(id); !ok {
		t.Fatal("forgotten while connected")
	}

	d.Disconnect(id)
	d.sweep(time.Now().Add(5 * time.Second))
	d.connect(t, &corev3.Node{Id: webNode})
	d.Healthy(fails)
	d.sweep(time.Now().Add(time.Hour))
	if _, ok := d.said(id); !ok {
		t.Error("forgotten over a reconnect, though it was said again")
	}

	d.Disconnect(id)
	d.connect(t, &corev3.Node{Id: webNode})
	d.sweep(time.Now().Add(11 * time.Second))
	if _, ok := d.said(id); ok {
		t.Error("still known of an agent that came back and does not say it")
	}

	d.Healthy(fails)
	d.Disconnect(id)
	if next, some := d.sweep(time.Now()); !some || next > 10*time.Second {
		t.Errorf("the next sweep is in %v (%t), want it within the grace", next, some)
	}
	d.sweep(time.Now().Add(11 * time.Second))
	if _, ok := d.said(id); ok {
		t.Error("still known of an agent that stays away")
	}
	d.Healthy(xds.Report{Proxy: "sidecar~10.0.0.1~nobody.shop~x"})
	if d.staged() {
		t.Error("somebody who is not connected was believed")
	}
}

// TestHealthOfStrangers: health reports and rejections in plaintext from another machine are ignored.
func TestHealthOfStrangers(t *testing.T) {
	d := newDemand()
	id, err := d.Connect(t.Context(), &corev3.Node{Id: webNode}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	d.turn()
	d.Healthy(xds.Report{Proxy: id, Failed: true})
	d.Rejected(xds.Rejection{Proxy: id, Type: xdstype.ClusterURL, Names: []string{"BlackHoleCluster"}, Detail: "no"})
	if d.staged() {
		t.Error("a stranger's word changes something")
	}
}

// TestHealthIsOfWhoProvedIt: the service account of the connection counts, not the one that the node names; another's
// proxy of the same node id is another proxy.
func TestHealthIsOfWhoProvedIt(t *testing.T) {
	d := newDemand()
	as := func(account string) context.Context {
		id, err := identity.New("cluster.local", "shop", account)
		if err != nil {
			t.Fatal(err)
		}
		return proof.With(t.Context(), authn.Caller{ID: id, By: "certificate"})
	}
	id, err := d.Connect(as("web"), &corev3.Node{Id: webNode}, &net.TCPAddr{})
	if err != nil {
		t.Fatal(err)
	}
	d.Healthy(xds.Report{Proxy: id, Failed: true, Detail: strings.Repeat("x", 2000)})
	if r, _ := d.said(id); r.Proxy.ServiceAccount != "web" || len(r.Detail) != maxDetail {
		t.Errorf("known: %+v", r)
	}
	thief, err := d.Connect(as("thief"), &corev3.Node{Id: webNode}, &net.TCPAddr{})
	if err != nil || thief == id {
		t.Errorf("another's node id: %q, %v", thief, err)
	}
	d.Healthy(xds.Report{Proxy: thief})
	if r, ok := d.said(id); !ok || r.Healthy {
		t.Errorf("known after another spoke: %+v, %t", r, ok)
	}
	d.Disconnect(thief)
	d.sweep(time.Now().Add(time.Hour))
	if _, ok := d.said(id); !ok {
		t.Error("what was said is forgotten with another's stream")
	}
}

// TestCertificatesShown lists the credentials of proxies, of connected ones only.
func TestCertificatesShown(t *testing.T) {
	d := newDemand()
	d.connect(t, &corev3.Node{Id: "sidecar~10.0.0.1~plain.shop~x"})
	id := d.connect(t, &corev3.Node{Id: webNode})
	who, err := identity.New("cluster.local", "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	leaf := &x509.Certificate{SerialNumber: big.NewInt(0xbeef), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	tls := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: tls})
	d.all[mesh.ProxyID(id)].shown = proof.Of(proof.With(ctx, authn.Caller{ID: who, By: "certificate"}))
	got := d.Certificates()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if p := got[0]; p.By != "nothing" || p.Certificate != nil || p.Identity != "" {
		t.Errorf("plaintext: %+v", p)
	}
	if p := got[1]; p.Identity != "spiffe://cluster.local/ns/shop/sa/web" || p.Certificate == nil || p.Certificate.Serial != "beef" ||
		!p.Certificate.Valid {
		t.Errorf("certificate: %+v", p)
	}
	leaf.NotAfter = now.Add(-time.Minute)
	if d.Certificates()[1].Certificate.Valid {
		t.Error("a certificate that has ended counts as valid")
	}
	d.Disconnect(id)
	if len(d.Certificates()) != 1 {
		t.Error("one that left is listed")
	}
}
