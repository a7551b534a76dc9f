package proof

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/admin/page"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/mesh"
	"fairway/internal/mesh/nodeid"
)

// Proof is the identity that a stream proved for its proxy. The zero value is that of a stream in plaintext, which proves nothing.
type Proof struct {
	caller authn.Caller
	leaf   *x509.Certificate // nil: a token was shown
}

type key struct{}

// With returns a context with the identity that a stream proved.
func With(ctx context.Context, caller authn.Caller) context.Context {
	c := Proof{caller: caller}
	if shown := authn.FromContext(ctx).Certificates; caller.By == "certificate" && len(shown) > 0 {
		c.leaf = shown[0]
	}
	return context.WithValue(ctx, key{}, c)
}

// Of returns the proof of the stream with this context; the zero Proof if With was not called.
func Of(ctx context.Context) Proof {
	c, _ := ctx.Value(key{}).(Proof)
	return c
}

// Caller returns the authenticated caller; the zero Caller: there is none.
func (c Proof) Caller() authn.Caller { return c.caller }

// ParseNode reads a client's description of its proxy in a stream's first request. Its errors are fit for the client.
func ParseNode(node *corev3.Node) (mesh.Proxy, error) {
	l := node.GetLocality()
	proxy, err := nodeid.Parse(nodeid.Node{
		ID: node.GetId(), Metadata: (&structpb.Struct{Fields: node.GetMetadata().GetFields()}).AsMap(),
		Locality: mesh.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()},
	})
	if err != nil {
		return mesh.Proxy{}, status.Error(codes.InvalidArgument, err.Error())
	}
	return proxy, nil
}

// Identify writes the proved identity into a proxy, and derives the proxy's ID from it.
func (c Proof) Identify(p *mesh.Proxy, from net.Addr) {
	switch account := c.caller.ID.ServiceAccount; {
	case account != "":
		p.Standing, p.ServiceAccount = mesh.Proven, account
		p.ID = mesh.MakeProxyID(p.Namespace, account, string(p.ID))
		p.Cluster = cmp.Or(p.Cluster, c.caller.Cluster)
	case identity.LocalPeer(from):
		p.Standing = mesh.Here
	}
}

// Mismatch returns an error if a proxy claims to be of another cluster than the one that vouched for it: the data about a cluster's
// pods is only for proxies that this cluster vouches for. The error is fit for the proxy.
func (c Proof) Mismatch(p mesh.Proxy) error {
	if c.caller.Cluster == "" || p.Cluster == "" || p.Cluster == c.caller.Cluster {
		return nil
	}
	return fmt.Errorf("the node claims cluster %q, and its token is from cluster %q: correct CLUSTER_ID, "+
		"in the node's metadata and in the metadata %q of the call", p.Cluster, c.caller.Cluster, "clusterid")
}

// Page describes the credential for the page of proxies' certificates. It has no keys: only the proxies have them.
func (c Proof) Page(proxy string, now time.Time) page.ProxyCertificate {
	out := page.ProxyCertificate{ProxyID: proxy, By: c.caller.By}
	if out.By == "" {
		out.By = "nothing"
		return out
	}
	out.Identity = c.caller.ID.String()
	if c.leaf == nil {
		return out
	}
	l := c.leaf
	out.Certificate = &page.Certificate{
		Serial:    l.SerialNumber.Text(16),
		NotBefore: l.NotBefore,
		NotAfter:  l.NotAfter,
		Issuer:    l.Issuer.String(),
		Valid:     now.After(l.NotBefore) && now.Before(l.NotAfter),
	}
	return out
}
