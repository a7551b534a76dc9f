package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fairway/internal/printable"
	"fairway/internal/web"
)

// Access decides which callers may see the debug pages: local callers and callers of the system namespace see all of them. A caller of
// another namespace sees that namespace's proxies and objects. The zero Access admits only local callers.
type Access struct {
	System   string   // the namespace that may see all pages
	Names    []string // DNS names of this control plane, beside localhost
	Profiles bool     // whether profiles are served to viewers that see all
	Secure   string   // where pages are served over TLS, as users write it; empty: nowhere
	// Prove returns the namespace that a caller proves by its certificate, which is in r.TLS, or by its token. It wraps ErrNoCredentials if
	// the caller showed neither. nil: no caller can prove a namespace.
	Prove func(r *http.Request, token string) (namespace string, err error)
	Log   *slog.Logger // of refusals; nil: none
}

// ErrNoCredentials reports that a caller showed neither certificate nor token.
var ErrNoCredentials = errors.New("no credentials")

// viewer is the caller of a page.
type viewer struct {
	all       bool
	namespace string // the only visible one, unless all is set
}

type viewerKey struct{}

// viewerOf returns the viewer that the guard has put into a request's context.
func viewerOf(r *http.Request) viewer {
	v, _ := r.Context().Value(viewerKey{}).(viewer)
	return v
}

// callerOf returns the namespace of a caller that proved one.
func callerOf(r *http.Request) string { return viewerOf(r).namespace }

// sees reports whether the viewer may see a namespace's objects. Only viewers that see all may see objects without a namespace.
func (v viewer) sees(namespace string) bool {
	return v.all || namespace != "" && namespace == v.namespace
}

// refusal is an answer to a caller that may not see a page, and its reason as a metric's label.
type refusal struct {
	code         int
	reason, text string
}

// Reasons of refusals: the values of fairway_page_refusals_total's label.
const (
	refusedPlaintext   = "plaintext"
	refusedCredentials = "credentials"
	refusedNamespace   = "namespace"
	refusedSite        = "site"
)

// guard checks each request for a debug page before the page is served; open pages do not use it.
func (p *Pages) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		if allowed := methods(r.URL.Path); !slices.Contains(strings.Split(allowed, ", "), r.Method) {
			w.Header().Set("Allow", allowed)
			http.Error(w, "this page answers "+allowed, http.StatusMethodNotAllowed)
			return
		}
		v, no := p.Access.admit(r)
		if no != nil {
			p.refuse(w, r, no)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewerKey{}, v)))
	})
}

// forAll restricts a page to viewers that see all.
func (p *Pages) forAll(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if v := viewerOf(r); !v.all {
			p.refuse(w, r, &refusal{http.StatusForbidden, refusedNamespace, "this page is for the system namespace " + p.Access.System +
				" and for the control plane's own machine; /debug lists what namespace " + v.namespace + " may see"})
			return
		}
		page(w, r)
	}
}

// auditRate bounds how many refusals are logged, a second and at once; all are counted.
const (
	auditRate  = 1
	auditBurst = 10
)

func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	p.Metrics.pageRefused(no.reason)
	if p.Access.Log != nil && p.audit.Allow() {
		p.Access.Log.Warn("debug page refused", "scope", "audit",
			"page", printable.Text(r.URL.Path, printable.Short), "address", r.RemoteAddr, "why", no.reason)
	}
	if no.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeError(w, no.text, no.code)
}

// harden keeps browsers from showing a page within another, guessing its type, running anything in it, and keeping it.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// admit returns the viewer that a request comes from.
func (a Access) admit(r *http.Request) (viewer, *refusal) {
	if no := foreignSite(r); no != nil {
		return viewer{}, no
	}
	token := bearer(r.Header)
	local := web.Loopback(r)
	if r.TLS == nil && !local {
		return viewer{}, a.plaintext(token != "")
	}
	shown := token != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if local && !shown {
		if !a.ours(r.Host) {
			return viewer{}, &refusal{
				http.StatusForbidden,
				refusedSite,
				fmt.Sprintf("the request is for host %q, which is not this control plane's name; ask an IP address or localhost",
					printable.Text(r.Host, printable.Short)),
			}
		}
		return viewer{all: true}, nil
	}
	return a.prove(r, token)
}

// prove decides by the certificate or token of the request.
func (a Access) prove(r *http.Request, token string) (viewer, *refusal) {
	if a.Prove == nil {
		return viewer{}, &refusal{
			http.StatusUnauthorized,
			refusedCredentials,
			"this control plane knows no callers: it serves nothing with TLS (--secureGRPCAddr); ask from its own " +
				"machine, without credentials",
		}
	}
	namespace, err := a.Prove(r, token)
	switch {
	case errors.Is(err, ErrNoCredentials) || err == nil && namespace == "":
		return viewer{}, &refusal{
			http.StatusUnauthorized,
			refusedCredentials,
			"who asks? Show a certificate of this mesh, or a token as header Authorization: Bearer <token>",
		}
	case err != nil:
		return viewer{}, &refusal{http.StatusUnauthorized, refusedCredentials, err.Error()}
	}
	return viewer{all: namespace == a.System, namespace: namespace}, nil
}

func (a Access) plaintext(token bool) *refusal {
	where := "; this control plane serves no pages over TLS (--secureGRPCAddr and --httpsAddr switch that on)"
	if a.Secure != "" {
		where = ", or by https on port " + portOf(a.Secure) + " with a certificate of this mesh or a token"
	}
	text := "debug pages are not shown to other machines in plaintext; ask on the control plane's own machine (http://localhost)" + where
	if token {
		text += "; the token that came with this request was sent in the clear: replace it"
	}
	return &refusal{http.StatusForbidden, refusedPlaintext, text}
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return port
}

// bearer returns the token of a request; empty: none.
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// foreignSite refuses requests that a browser sends on behalf of another site's page: such a page reaches everything that the browser's
// machine reaches, and would be admitted as its user.
func foreignSite(r *http.Request) *refusal {
	no := &refusal{http.StatusForbidden, refusedSite, "a page of another site asks; open this page by itself"}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		return no
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return no
		}
	}
	return nil
}

// ours reports whether a request names this control plane as its host. If a foreign site's name resolves to this machine (DNS rebinding),
// the browser sends that site's name.
func (a Access) ours(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]"))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true // no browser sends none; names below localhost resolve to it by themselves
	}
	if ip, _, _ := strings.Cut(host, "%"); net.ParseIP(ip) != nil {
		return true
	}
	return slices.ContainsFunc(a.Names, func(n string) bool { return strings.EqualFold(n, host) })
}
