package requests

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/filters"
	"fairway/internal/config/native"
	"fairway/internal/mesh/code"
)

// Authorizer translates a filter of type ExternalAuth (HTTPExternalAuthFilter); to is its backend.
func Authorizer(f *native.ExternalAuth, to *networking.Destination) filters.Authorizer {
	out := filters.Authorizer{Host: to.GetHost(), Port: to.GetPort().GetNumber()}
	if f.ForwardBody != nil {
		out.Body = uint32(max(0, f.ForwardBody.MaxSize)) //nolint:gosec // not negative
	}
	if f.Protocol == gatewayv1.HTTPRouteExternalAuthGRPCProtocol {
		if out.GRPC = true; f.GRPC != nil {
			out.Headers = small(f.GRPC.AllowedRequestHeaders)
		}
		return out
	}
	if c := f.HTTP; c != nil {
		out.Headers, out.Copied = small(c.AllowedRequestHeaders), small(c.AllowedResponseHeaders)
		if p := path.Clean("/" + c.Path); p != "/" {
			out.Path = p
		}
	}
	return out
}

// small returns names in small letters.
func small(names []string) (out []string) {
	for _, n := range names {
		out = append(out, strings.ToLower(n))
	}
	return out
}

// Mistake is a field of a rule that cannot be carried out.
type Mistake struct{ Field, Code, Message, Fix string }

// Session translates the sessionPersistence of a rule (SessionPersistence). owner identifies the route; secure says that its clients speak
// TLS. If it cannot be carried out, requests go to any endpoint.
func (r Rule) Session(owner string, secure bool) (filters.Session, []Mistake) {
	s := r.Sessions
	if s == nil {
		return filters.Session{}, nil
	}
	at := r.Field + ".sessionPersistence"
	ttl, limited := Duration(s.AbsoluteTimeout)
	if s.Header != nil {
		out, wrong := filters.Session{Name: s.Header.Name, Header: true}, []Mistake(nil)
		if name := strings.ToLower(out.Name); !token(name) || slices.Contains(ofHTTP, name) {
			return filters.Session{}, []Mistake{{at + ".header.name", code.BadHeaderName,
				fmt.Sprintf("%q cannot be the header of sessions: they are not kept", out.Name), "choose a name that HTTP does not use"}}
		}
		if limited {
			wrong = append(wrong, Mistake{at + ".absoluteTimeout", code.NotSupported,
				"sessions by header do not end in Envoy: the field has no effect", "leave it out, or use type Cookie"})
		}
		return out, wrong
	}
	cookie := value(s.Cookie, native.SessionCookie{})
	out := filters.Session{Name: value(cookie.Name, ""), Path: value(cookie.Path, "/"), Secure: secure}
	if limited && ttl > 0 {
		out.TTL = max(ttl.Truncate(time.Second), time.Second)
	}
	switch {
	case out.Name == "": // rules must not share sessions
		out.Name = "session-" + identify(owner, r.Name, r.Field)
	case !token(out.Name):
		return filters.Session{}, []Mistake{{at + ".cookie.name", code.BadName,
			fmt.Sprintf("%q is not the name of a cookie: sessions are not kept", out.Name), "write letters, digits and dashes"}}
	}
	if !strings.HasPrefix(out.Path, "/") || strings.ContainsFunc(out.Path, endsValue) {
		return filters.Session{}, []Mistake{{at + ".cookie.path", code.BadValue,
			fmt.Sprintf("%q is not the path of a cookie: sessions are not kept", out.Path),
			"begin with a slash, and write no spaces, commas and semicolons"}}
	}
	return out, nil
}

// ofHTTP are headers that a session must not replace.
var ofHTTP = []string{
	"host", "connection", "content-length", "content-type", "cookie", "date", "keep-alive", "location", "proxy-connection", "set-cookie",
	"te", "trailer", "transfer-encoding", "upgrade",
}

// endsValue reports whether a character cannot be in the value of a cookie's attribute (RFC 6265, 4.1.1).
func endsValue(c rune) bool { return c <= ' ' || c >= 0x7f || c == ';' || c == ',' }

// token reports whether a text can be the name of a cookie or header (RFC 9110, 5.6.2).
func token(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// identify returns a short text that other parts do not have.
func identify(parts ...string) string {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%q", p)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
