package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// LinkLocal are the networks that nobody is led to unless somebody says otherwise: machines of clouds give out their credentials there.
var LinkLocal = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}

// ErrBarred is what calls of a barred network fail with.
var ErrBarred = errors.New("whose addresses are barred")

// mostRedirects is how often a client is sent elsewhere.
const mostRedirects = 5

// Transport is that of a client which is led by what strangers wrote: it opens few connections, keeps none open for long, and does not
// call the barred networks, whatever name or redirect leads there. The caller may set more of it before it is used.
func Transport(barred []netip.Prefix) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		for _, p := range barred {
			if p.Contains(at.Addr().Unmap().WithZone("")) {
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
