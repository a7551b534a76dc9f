package fetch

import (
	"crypto/tls"
	"net/http"
	"net/netip"

	"fairway/internal/web"
)

// ClientOptions say how issuers are called.
type ClientOptions struct {
	Barred   []netip.Prefix // networks that are not called, whatever name leads there
	Insecure bool           // any server is trusted: only for tests of users
}

// NewClient makes a client that follows few redirects, opens few connections, and keeps none open for long.
func NewClient(o ClientOptions) *http.Client {
	t := web.Transport(o.Barred)
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure} //nolint:gosec // asked for
	return &http.Client{Transport: t, CheckRedirect: web.FewRedirects}
}
