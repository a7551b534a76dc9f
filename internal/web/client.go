package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"fairway/internal/mesh"
)

// LinkLocal are the networks that are barred by default: clouds serve the credentials of their machines there. They include addresses of
// metadata services that are not link-local.
var LinkLocal = mesh.CredentialNetworks()

// OwnMachine lists the addresses that lead a program to its own machine.
var OwnMachine = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::/128"),
}

// ErrBarred is the error of calls to a barred network.
var ErrBarred = errors.New("a barred network")

// mostRedirects is how many redirects a client follows.
const mostRedirects = 5

// Transport returns the transport of a client for URLs that strangers wrote: it opens few connections, keeps none open for long, and does
// not connect to the barred networks, whatever name or redirect leads there. The caller may set more fields before using it.
func Transport(barred []netip.Prefix) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		for _, p := range barred {
			if p.Contains(at.Addr().Unmap().WithZone("")) || p.Contains(mesh.Innermost(at.Addr())) {
				return fmt.Errorf("%s is in %s, %w", at.Addr(), p, ErrBarred)
			}
		}
		return nil
	}}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 1,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// FewRedirects is the CheckRedirect of such a client.
func FewRedirects(_ *http.Request, via []*http.Request) error {
	if len(via) > mostRedirects {
		return errors.New("it sends elsewhere again and again")
	}
	return nil
}
