package requests

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/native"
)

// OfCalls returns a filter of a GRPCRoute as one of an HTTPRoute, whose parts it has.
func OfCalls(f gatewayv1.GRPCRouteFilter) native.HTTPRouteFilter {
	return native.HTTPRouteFilter{
		Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
		ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
	}
}

// Headers translates changes of headers (HTTPHeaderFilter). A percent sign is only itself.
func Headers(f *gatewayv1.HTTPHeaderFilter) *networking.Headers_HeaderOperations {
	out := &networking.Headers_HeaderOperations{Remove: f.Remove}
	put := func(to *map[string]string, list []gatewayv1.HTTPHeader) {
		for _, h := range list {
			if *to == nil {
				*to = map[string]string{}
			}
			if name := strings.ToLower(string(h.Name)); (*to)[name] == "" {
				(*to)[name] = strings.ReplaceAll(h.Value, "%", "%%")
			}
		}
	}
	put(&out.Set, f.Set)
	put(&out.Add, f.Add)
	return out
}

// usualPorts are the ports of schemes that no address has to name.
var usualPorts = map[string]int32{"http": 80, "https": 443}

// Redirect translates a redirect (HTTPRequestRedirectFilter). The port is that of the scheme if one is written, else the listener's.
// Without a listener, it is the one that the request was sent to. prefix takes the place of the path prefix that a request was matched by.
func Redirect(f *gatewayv1.HTTPRequestRedirectFilter, l *gatewayv1.Listener) (out *networking.HTTPRedirect, prefix *string) {
	out = &networking.HTTPRedirect{
		Scheme: value(f.Scheme, ""), Authority: string(value(f.Hostname, "")),
		RedirectCode: uint32(value(f.StatusCode, 302)), //nolint:gosec // the schema bounds it
	}
	scheme, port := out.Scheme, usualPorts[out.Scheme]
	if scheme == "" && l != nil {
		scheme, port = strings.ToLower(string(l.Protocol)), l.Port
	}
	if f.Port != nil {
		port = *f.Port
	}
	if port != usualPorts[scheme] || l == nil && port != 0 {
		out.RedirectPort = &networking.HTTPRedirect_Port{Port: uint32(port)} //nolint:gosec // the schema bounds it
	}
	if f.Path != nil {
		out.Uri, prefix = value(f.Path.ReplaceFullPath, ""), f.Path.ReplacePrefixMatch
	}
	return out, prefix
}

// Rewrite translates a rewrite (HTTPURLRewriteFilter). prefix takes the place of the matched path prefix (config.MadeRoute); nil: it stays.
func Rewrite(f *gatewayv1.HTTPURLRewriteFilter) (out *networking.HTTPRewrite, prefix *string) {
	out = &networking.HTTPRewrite{Authority: string(value(f.Hostname, ""))}
	if f.Path == nil {
		return out, nil
	}
	if full := f.Path.ReplaceFullPath; full != nil {
		out.UriRegexRewrite = &networking.RegexRewrite{Match: "^/.*$", Rewrite: strings.ReplaceAll(*full, `\`, `\\`)}
	}
	return out, f.Path.ReplacePrefixMatch
}

// Share returns the part of requests that a mirror gets; nil: all.
func Share(f *gatewayv1.HTTPRequestMirrorFilter) *networking.Percent {
	switch {
	case f.Percent != nil:
		return &networking.Percent{Value: float64(*f.Percent)}
	case f.Fraction != nil:
		return &networking.Percent{Value: 100 * float64(f.Fraction.Numerator) / float64(max(1, value(f.Fraction.Denominator, 100)))}
	}
	return nil
}

// CORS translates a filter of type CORS (HTTPCORSFilter). A preflight request of an origin that is not allowed is answered without the
// headers that would allow it, and does not reach the backend.
func CORS(f *gatewayv1.HTTPCORSFilter) *networking.CorsPolicy {
	out := &networking.CorsPolicy{
		MaxAge: durationpb.New(time.Duration(max(f.MaxAge, 0)) * time.Second), UnmatchedPreflights: networking.CorsPolicy_IGNORE,
	}
	for _, o := range f.AllowOrigins {
		out.AllowOrigins = append(out.AllowOrigins, origin(string(o)))
	}
	for _, m := range f.AllowMethods {
		out.AllowMethods = append(out.AllowMethods, string(m))
	}
	for _, h := range f.AllowHeaders {
		out.AllowHeaders = append(out.AllowHeaders, string(h))
	}
	for _, h := range f.ExposeHeaders {
		out.ExposeHeaders = append(out.ExposeHeaders, string(h))
	}
	if value(f.AllowCredentials, false) {
		out.AllowCredentials = wrapperspb.Bool(true)
	}
	return out
}

// origin matches an origin, with stars for a part of its host.
func origin(o string) *networking.StringMatch {
	if !strings.Contains(o, "*") {
		return text("Exact", o)
	}
	if o == "*" {
		return text(string(gatewayv1.PathMatchRegularExpression), ".*")
	}
	return text(string(gatewayv1.PathMatchRegularExpression), strings.ReplaceAll(regexp.QuoteMeta(o), `\*`, `[^/]+`))
}

// Retries translates retries (HTTPRouteRetry).
func Retries(r *gatewayv1.HTTPRouteRetry) *networking.HTTPRetry {
	out := &networking.HTTPRetry{Attempts: int32(value(r.Attempts, 1))} //nolint:gosec // the schema bounds it
	on := []string{"connect-failure", "refused-stream", "unavailable", "cancelled"}
	for _, c := range r.Codes {
		on = append(on, fmt.Sprint(c))
	}
	out.RetryOn = strings.Join(on, ",")
	if d, ok := Duration(r.Backoff); ok && d > 0 {
		out.Backoff = durationpb.New(d)
	}
	return out
}

// Duration reads a duration (GEP-2257), whose form the schema judged.
func Duration(d *gatewayv1.Duration) (time.Duration, bool) {
	if d == nil {
		return 0, false
	}
	out, err := time.ParseDuration(string(*d))
	return out, err == nil
}
