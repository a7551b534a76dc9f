package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"net"
	"slices"
	"time"

	"fairway/internal/admin/page"
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

// standBehind writes into a proxy what its stream proved, and names it by that.
func (c credential) standBehind(p *mesh.Proxy, from net.Addr) {
	switch account := c.caller.ID.ServiceAccount; {
	case account != "":
		p.Standing, p.ServiceAccount = mesh.Proven, account
		p.ID = mesh.MakeProxyID(p.Namespace, account, string(p.ID))
	case local(from):
		p.Standing = mesh.Here
	}
}

// certificates tells what each connected proxy has shown, in order of proxy. Keys are not among it: nobody has them but the proxies.
func (p *proxies) certificates() []page.ProxyCertificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []page.ProxyCertificate{}
	for id, c := range p.all {
		if c.streams > 0 {
			line := c.shown.page(id.Node(), time.Now())
			line.Namespace = c.proxy.Namespace
			out = append(out, line)
		}
	}
	slices.SortFunc(out, func(a, b page.ProxyCertificate) int { return cmp.Compare(a.ProxyID, b.ProxyID) })
	return out
}

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
