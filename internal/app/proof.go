package app

import (
	"context"
	"crypto/x509"
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
)

// credential is what a stream proved of its proxy. The zero value is of a stream in plaintext, which proves nothing.
type credential struct {
	caller authn.Caller
	leaf   *x509.Certificate // nil: a token was shown
}

type credentialKey struct{}

// withCredential hands what a stream proved to whoever takes the stream.
func withCredential(ctx context.Context, caller authn.Caller) context.Context {
	c := credential{caller: caller}
	if shown := authn.FromContext(ctx).Certificates; caller.By == "certificate" && len(shown) > 0 {
		c.leaf = shown[0]
	}
	return context.WithValue(ctx, credentialKey{}, c)
}

func credentialOf(ctx context.Context) credential {
	c, _ := ctx.Value(credentialKey{}).(credential)
	return c
}

// parseNode reads what a client says of its proxy in a stream's first request. Its errors are fit for the client.
func parseNode(node *corev3.Node) (mesh.Proxy, error) {
	l := node.GetLocality()
	proxy, err := mesh.ParseNode(mesh.Node{
		ID: node.GetId(), Metadata: (&structpb.Struct{Fields: node.GetMetadata().GetFields()}).AsMap(),
		Locality: mesh.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()},
	})
	if err != nil {
		return mesh.Proxy{}, status.Error(codes.InvalidArgument, err.Error())
	}
	return proxy, nil
}

// standBehind writes into a proxy what its stream proved, and names it by that.
func (c credential) standBehind(p *mesh.Proxy, from net.Addr) {
	switch account := c.caller.ID.ServiceAccount; {
	case account != "":
		p.Standing, p.ServiceAccount = mesh.Proven, account
		p.ID = mesh.MakeProxyID(p.Namespace, account, string(p.ID))
	case identity.LocalPeer(from):
		p.Standing = mesh.Here
	}
}

// page describes the credential for the page of proxies' certificates. Keys are not among it: nobody has them but the proxies.
func (c credential) page(proxy string, now time.Time) page.ProxyCertificate {
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
		Serial: l.SerialNumber.Text(
			16,
		),
		NotBefore: l.NotBefore,
		NotAfter:  l.NotAfter,
		Issuer:    l.Issuer.String(),
		Valid:     now.After(l.NotBefore) && now.Before(l.NotAfter),
	}
	return out
}
