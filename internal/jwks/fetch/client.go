package fetch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// LinkLocal are the networks that are barred unless the options say otherwise: machines of clouds give out their credentials there.
var LinkLocal = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}

// ClientOptions say how issuers are called.
type ClientOptions struct {
	Barred   []netip.Prefix // networks that are not called, whatever name leads there
	Insecure bool           // whoever answers is believed: for tests of users, never elsewhere
}

// NewClient makes a client that follows few redirects, opens few connections, and keeps none open for long.
func NewClient(o ClientOptions) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		for _, p := range o.Barred {
			if p.Contains(at.Addr().Unmap().WithZone("")) {
				return fmt.Errorf("%s is in %s, whose addresses are barred", at.Addr(), p)
			}
		}
		return nil
	}}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}, //nolint:gosec // asked for
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 1,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > 5 {
				return errors.New("it sends elsewhere again and again")
			}
			return nil
		},
	}
}
