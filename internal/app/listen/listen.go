package listen

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"fairway/internal/web"
)

// DefaultHTTPS is the flags' default for --httpsAddr. If another program has it, that is not a reason not to start.
const DefaultHTTPS = ":15017"

// Addresses say where to listen, as host:port; empty: nowhere.
type Addresses struct {
	GRPC, HTTP, HTTPS, Monitoring string
	// TLS is how HTTPS is served; nil: it is not.
	TLS *tls.Config
	Log *slog.Logger
}

// Sockets are the open ones; those that are not open are nil.
type Sockets struct{ grpc, http, https, monitoring net.Listener }

// Open opens all sockets, or none if one cannot be opened: a taken port fails the start at once.
func Open(a Addresses) (*Sockets, error) {
	s := &Sockets{}
	for _, l := range []struct {
		flag, addr string
		to         *net.Listener
	}{
		{"--grpcAddr", a.GRPC, &s.grpc},
		{"--httpAddr", a.HTTP, &s.http},
		{"--monitoringAddr", a.Monitoring, &s.monitoring},
	} {
		if l.addr == "" {
			continue
		}
		socket, err := net.Listen("tcp", l.addr)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w; choose another port or stop what listens there", l.flag, err)
		}
		*l.to = socket
	}
	if err := s.openHTTPS(a); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openHTTPS opens the socket of the pages with TLS, if there is a certificate to show.
func (s *Sockets) openHTTPS(a Addresses) error {
	addr := a.HTTPS
	if a.TLS == nil || addr == "" {
		if addr != "" && addr != DefaultHTTPS {
			a.Log.Warn("--httpsAddr is not served: it needs the certificates of --secureGRPCAddr", "httpsAddr", addr)
		}
		return nil
	}
	socket, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		config := a.TLS.Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		s.https = tls.NewListener(socket, config)
	case addr == DefaultHTTPS:
		a.Log.Warn("pages are not served with TLS: the default address is taken; choose one with --httpsAddr", "error", err)
	default:
		return fmt.Errorf("--httpsAddr: %w; choose another port or stop what listens there", err)
	}
	return nil
}

// Close closes all sockets.
func (s *Sockets) Close() {
	for _, socket := range []net.Listener{s.grpc, s.http, s.https, s.monitoring} {
		if socket != nil {
			socket.Close()
		}
	}
}

// addressOf returns the address of a socket; empty: it is not open.
func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// GRPC returns the socket of xDS in plaintext; nil: there is none.
func (s *Sockets) GRPC() net.Listener { return s.grpc }

// GRPCAddr returns the address of xDS in plaintext; empty: none.
func (s *Sockets) GRPCAddr() string { return addressOf(s.grpc) }

// HTTPAddr returns the address of readiness and debug pages; empty: none.
func (s *Sockets) HTTPAddr() string { return addressOf(s.http) }

// HTTPSAddr returns the address of pages with TLS; empty: none.
func (s *Sockets) HTTPSAddr() string { return addressOf(s.https) }

// MonitoringAddr returns the separate address of metrics; empty: none.
func (s *Sockets) MonitoringAddr() string { return addressOf(s.monitoring) }

// Serve starts the HTTP servers with run, pages without TLS and secured with it, and returns a function that stops them.
func (s *Sockets) Serve(run func(string, func() error), pages, secured http.Handler, o web.Options) (stop func()) {
	var servers []*http.Server
	for _, one := range []struct {
		name   string
		socket net.Listener
		pages  http.Handler
	}{{"http", s.http, pages}, {"https", s.https, secured}, {"monitoring", s.monitoring, pages}} {
		if one.socket == nil {
			continue
		}
		server := web.New(one.pages, o)
		servers = append(servers, server)
		run(one.name, func() error {
			if err := server.Serve(one.socket); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// GetCertificate is a tls.Config's.
type GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Preferring returns a function that presents the certificate of own, or that of otherwise if own returns nil.
func Preferring(own func() *tls.Certificate, otherwise GetCertificate) GetCertificate {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if shown := own(); shown != nil {
			return shown, nil
		}
		return otherwise(hello)
	}
}
