package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/app/secure"
	"fairway/internal/web"
	"fairway/internal/webhook"
)

// pagesAddr is the flags' default for --httpsAddr. One that another program has is no reason not to start: nobody asked for it.
const pagesAddr = ":15017"

// listenHTTPS opens the socket of the pages with TLS, where there is a certificate to show.
func (d *Discovery) listenHTTPS() error {
	addr := d.opts.HTTPSAddr
	if d.secure == nil || addr == "" {
		if addr != "" && addr != pagesAddr {
			d.log.Warn("--httpsAddr is not served: it needs the certificates of --secureGRPCAddr", "httpsAddr", addr)
		}
		return nil
	}
	socket, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		config := d.secure.TLS()
		config.GetCertificate = d.shown(config.GetCertificate)
		config.NextProtos = []string{"h2", "http/1.1"}
		d.listens.https = tls.NewListener(socket, config)
	case addr == pagesAddr:
		d.log.Warn("pages are not served with TLS: the default address is taken; choose one with --httpsAddr", "error", err)
	default:
		d.listens.close()
		return fmt.Errorf("--httpsAddr: %w; choose another port or stop what listens there", err)
	}
	return nil
}

// getCertificate is a tls.Config's.
type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// shown has the certificate that a signer of Kubernetes made go before the one that agents are shown.
func (d *Discovery) shown(otherwise getCertificate) getCertificate {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if d.writes != nil {
			if own := d.writes.Own(); own != nil {
				return own, nil
			}
		}
		return otherwise(hello)
	}
}

// HTTPSAddr is where pages are served with TLS; empty when they are not.
func (d *Discovery) HTTPSAddr() string { return addressOf(d.listens.https) }

// serveWeb starts the HTTP servers and returns what stops them.
func (d *Discovery) serveWeb(run func(string, func() error)) (stop func()) {
	var servers []*http.Server
	pages := d.pages().Handler()
	serve := func(name string, l net.Listener, pages http.Handler) {
		if l == nil {
			return
		}
		s := web.New(pages, web.Options{Log: d.log, Panicked: d.metrics.Panicked, Open: admin.Open(), Apart: webhook.Paths()})
		servers = append(servers, s)
		run(name, func() error {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	serve("http", d.listens.http, pages)
	serve("https", d.listens.https, d.withWebhooks(pages))
	serve("monitoring", d.listens.monitor, pages)
	return func() {
		for _, s := range servers {
			s.Close()
		}
	}
}

func (d *Discovery) pages() *admin.Pages {
	out := &admin.Pages{
		Graph:    d.graph,
		Streams:  d.server,
		Compare:  d.compare,
		Metrics:  d.metrics,
		Ready:    d.Ready,
		Behind:   d.Behind,
		Problems: d.Problems,
		Applies:  d.Applies,
		Sources:  func() any { return d.shards.Standings() },
		Origin:   d.shards.OriginOf,
		Clusters: func() any { return d.clusters.standings() },
		Proxy:    d.proxies.Find,
		Shown:    d.proxies.Certificates,
		Keys:     func() any { return d.keys.States() },
		Version:  fairway.Version,
		Access:   admin.Access{System: d.opts.Namespace, Names: d.ownNames(), Profiles: d.opts.Profiles, Secure: d.HTTPSAddr(), Log: d.log},
	}
	if d.writes != nil {
		out.Writes = func() any { return d.writes.View() }
	}
	if d.secure != nil {
		out.Access.Prove = d.prove
		if authority := d.secure.Authority(); authority != nil {
			out.Authority = func() any { return authority.Status() }
		}
	}
	return out
}

// ownNames are the names by which this machine's users may call the control plane.
func (d *Discovery) ownNames() []string {
	names := append(secure.ServerNames(d.opts.Namespace, d.opts.Revision), d.opts.Identity.Names...)
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}
