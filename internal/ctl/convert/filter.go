package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/native"
	"fairway/internal/ctl/convert/block"
)

// modifiers converts changes of headers.
func (w *work) modifiers(field string, h *networking.Headers) (out []native.HTTPRouteFilter, ok bool) {
	request, good := w.modifier(field+".request", h.GetRequest(), true)
	response, fine := w.modifier(field+".response", h.GetResponse(), false)
	if request != nil {
		out = append(out, native.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: request,
		})
	}
	if response != nil {
		out = append(out, native.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: response,
		})
	}
	return out, good && fine
}

func (w *work) modifier(field string, in *networking.Headers_HeaderOperations, request bool) (*gatewayv1.HTTPHeaderFilter, bool) {
	out, ok := &gatewayv1.HTTPHeaderFilter{Remove: in.GetRemove()}, true
	values := func(field string, from map[string]string) (list []gatewayv1.HTTPHeader) {
		seen := map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			at, value := field+"."+name, from[name]
			plain := strings.ReplaceAll(value, "%%", "")
			switch lower := strings.ToLower(name); {
			case request && (lower == "host" || lower == ":authority"):
				w.lose(at, "a route sets the authority by a rewrite", "write rewrite.authority")
				ok = false
			case strings.Contains(plain, "%"):
				w.lose(at, "a route sets headers to plain text, without commands of the proxy",
					"write the text, or keep the VirtualService")
				ok = false
			case seen[lower]:
				w.lose(at, "the header is set twice, in small and in capital letters", "write it once")
				ok = false
			default:
				seen[lower] = true
			}
			list = append(list, gatewayv1.HTTPHeader{
				Name: gatewayv1.HTTPHeaderName(name), Value: strings.ReplaceAll(value, "%%", "%"),
			})
		}
		return list
	}
	out.Set, out.Add = values(field+".set", in.GetSet()), values(field+".add", in.GetAdd())
	if len(out.Set)+len(out.Add)+len(out.Remove) == 0 {
		return nil, true
	}
	return out, ok
}

// redirect converts a redirect.
func (w *work) redirect(field string, in *networking.HTTPRedirect, matches []*block.Match, group []*parent) (
	*gatewayv1.HTTPRequestRedirectFilter, bool,
) {
	out, ok := &gatewayv1.HTTPRequestRedirectFilter{StatusCode: ptr(301)}, true
	if code := in.GetRedirectCode(); code != 0 {
		out.StatusCode = ptr(int(code))
	}
	if s := in.GetScheme(); s != "" {
		out.Scheme = &s
	}
	if a := in.GetAuthority(); a != "" {
		out.Hostname = ptr(gatewayv1.PreciseHostname(a))
	}
	if in.GetUri() != "" {
		out.Path = &gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: ptr(in.GetUri())}
	} else if in.GetPrefixRewrite() != "" {
		out.Path, ok = w.replace(field+".prefixRewrite", in.GetPrefixRewrite(), matches)
	}
	switch port := in.GetRedirectPort().(type) {
	case *networking.HTTPRedirect_Port:
		out.Port = ptr(gatewayv1.PortNumber(port.Port)) //nolint:gosec // the schema bounds it
	case *networking.HTTPRedirect_DerivePort:
		if port.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
			w.lose(field+".derivePort", "a route does not take the port of the request", "write the port")
			ok = false
		}
	}
	if out.Port != nil {
		return out, ok
	}
	for _, p := range group {
		switch {
		case p.listener == nil && in.GetScheme() != "":
			w.lose(field, "a route for the clients of a service adds the port of the scheme to the location", "write the port")
			ok = false
		case p.listener != nil && in.GetScheme() == "" && p.port != usualPorts[p.listener.kind]:
			w.lose(field, fmt.Sprintf("a route adds the listener's port %d to the location, a VirtualService keeps the request's", p.port),
				"write the port, or the scheme")
			ok = false
		}
	}
	return out, ok
}

// usualPorts are the ports of protocols that no address has to name.
var usualPorts = map[gatewayv1.ProtocolType]uint32{gatewayv1.HTTPProtocolType: 80, gatewayv1.HTTPSProtocolType: 443}

// rewrite converts a rewrite; nil: nothing is rewritten.
func (w *work) rewrite(field string, in *networking.HTTPRewrite, matches []*block.Match) (*gatewayv1.HTTPURLRewriteFilter, bool) {
	out, ok := &gatewayv1.HTTPURLRewriteFilter{}, true
	if a := in.GetAuthority(); a != "" {
		out.Hostname = ptr(gatewayv1.PreciseHostname(a))
	}
	if in.GetUriRegexRewrite().GetMatch() != "" {
		w.lose(field+".uriRegexRewrite", "a route does not rewrite paths by regular expressions", "write uri, or keep the VirtualService")
		return nil, false
	}
	if in.GetUri() != "" {
		out.Path, ok = w.replace(field+".uri", in.GetUri(), matches)
	}
	if out.Hostname == nil && out.Path == nil {
		return nil, ok
	}
	return out, ok
}

// replace converts the text that replaces what a path was matched by: the whole path, or its prefix. nil: the path stays.
func (w *work) replace(field, by string, matches []*block.Match) (*gatewayv1.HTTPPathModifier, bool) {
	var out *gatewayv1.HTTPPathModifier
	for i, m := range matches {
		one := &gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: &by}
		if m.Kind == block.Any || m.Kind == block.Elements || m.Kind == block.Text {
			one = &gatewayv1.HTTPPathModifier{
				Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: ptr(strings.TrimRight(by, "/")),
			}
			if by == "/" {
				*one.ReplacePrefixMatch = "/"
			}
		}
		ends := strings.HasSuffix(by, "/")
		switch {
		case m.Kind == block.Text:
			w.lose(field, "a route replaces whole path elements", "--whole-elements writes the prefix as PathPrefix")
			return nil, false
		case m.Kind == block.Any && by == "/":
			one = nil
		case m.Kind == block.Any && !ends, m.Kind == block.Elements && by != "/" && ends != m.Slash:
			w.lose(field, "a route replaces whole path elements, here the text changes elements",
				"write a slash at the end of both the prefix and the rewrite, or of none")
			return nil, false
		}
		if i > 0 && (one == nil) != (out == nil) || one != nil && out != nil && one.Type != out.Type {
			w.lose(field, "a rule replaces either whole paths or prefixes, and its match blocks have both", "write a rule for each")
			return nil, false
		}
		out = one
	}
	return out, true
}

// mirrors converts the copies of requests.
func (w *work) mirrors(field string, in *networking.HTTPRoute) (out []native.HTTPRouteFilter, ok bool) {
	ok = true
	add := func(field string, d *networking.Destination, percent float64) {
		ref, good := w.backend(field, d)
		ok = ok && good
		mirror := &gatewayv1.HTTPRequestMirrorFilter{BackendRef: ref}
		part := math.Round(percent * 10000)
		switch whole := math.Round(percent); {
		case part >= 1_000_000:
		case part <= 0:
			return
		case whole*10000 == part:
			mirror.Percent = ptr(int32(whole))
		default:
			mirror.Fraction = &gatewayv1.Fraction{Numerator: int32(part), Denominator: ptr(int32(1_000_000))}
		}
		out = append(out, native.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: mirror})
	}
	if d := in.GetMirror(); d != nil {
		percent := 100.0
		//nolint:staticcheck // mirror_percent is deprecated, and users have it
		if old := in.GetMirrorPercent(); old != nil {
			percent = float64(old.GetValue())
		}
		if p := in.GetMirrorPercentage(); p != nil {
			percent = p.GetValue()
		}
		add(field+".mirror", d, percent)
	}
	for i, m := range in.GetMirrors() {
		percent := 100.0
		if m.GetPercentage() != nil {
			percent = m.GetPercentage().GetValue()
		}
		add(index(field+".mirrors", i)+".destination", m.GetDestination(), percent)
	}
	return out, ok
}

// usualMaxAge is how many seconds browsers keep the answer to a preflight request that names no time.
const usualMaxAge = 5

// cors converts the answers to requests from other origins.
func (w *work) cors(field string, in *networking.CorsPolicy) (*gatewayv1.HTTPCORSFilter, bool) {
	out, ok := &gatewayv1.HTTPCORSFilter{MaxAge: usualMaxAge}, true
	for i, o := range in.GetAllowOrigins() {
		switch {
		case o.GetExact() != "" && !strings.Contains(o.GetExact(), "*"):
			out.AllowOrigins = append(out.AllowOrigins, gatewayv1.CORSOrigin(o.GetExact()))
		case o.GetRegex() == ".*":
			out.AllowOrigins = append(out.AllowOrigins, "*")
		default:
			w.lose(index(field+".allowOrigins", i), "a route allows origins by their text", "write exact")
			ok = false
		}
	}
	//nolint:staticcheck // allow_origin is deprecated, and users have it
	for _, o := range in.GetAllowOrigin() {
		out.AllowOrigins = append(out.AllowOrigins, gatewayv1.CORSOrigin(o))
	}
	for _, m := range in.GetAllowMethods() {
		out.AllowMethods = append(out.AllowMethods, gatewayv1.HTTPMethodWithWildcard(m))
	}
	for _, h := range in.GetAllowHeaders() {
		out.AllowHeaders = append(out.AllowHeaders, gatewayv1.HTTPHeaderName(h))
	}
	for _, h := range in.GetExposeHeaders() {
		out.ExposeHeaders = append(out.ExposeHeaders, gatewayv1.HTTPHeaderName(h))
	}
	if in.GetAllowCredentials().GetValue() {
		out.AllowCredentials = ptr(true)
	}
	if d := in.GetMaxAge(); d != nil {
		if out.MaxAge = int32(min(d.AsDuration()/time.Second, math.MaxInt32)); out.MaxAge < 1 {
			w.lose(field+".maxAge", "a route has a maxAge of at least a second", "write 1s, or leave it out")
			ok = false
		}
	}
	if in.GetUnmatchedPreflights() != networking.CorsPolicy_IGNORE {
		w.lose(field+".unmatchedPreflights", "a route answers preflight requests of other origins itself, and hands none on",
			"write IGNORE if this is right")
		ok = false
	}
	return out, ok
}

// usualRetryOn are the conditions that a route of the Gateway API always retries on, beside codes.
var usualRetryOn = []string{"cancelled", "connect-failure", "refused-stream", "unavailable"}

// retries converts retries. tryTimeout is the timeout of each try; 0: none.
func (w *work) retries(field string, in *networking.HTTPRetry) (out *gatewayv1.HTTPRouteRetry, tryTimeout time.Duration, ok bool) {
	ok = true
	refuse := func(name, what, fix string) {
		w.lose(field+"."+name, what, fix)
		ok = false
	}
	out = &gatewayv1.HTTPRouteRetry{Attempts: ptr(int(in.GetAttempts()))}
	if in.GetAttempts() <= 0 {
		return &gatewayv1.HTTPRouteRetry{Attempts: ptr(0)}, 0, true
	}
	var on []string
	for part := range strings.SplitSeq(in.GetRetryOn(), ",") {
		part = strings.TrimSpace(part)
		if code, err := strconv.Atoi(part); err == nil {
			out.Codes = append(out.Codes, gatewayv1.HTTPRouteRetryStatusCode(code))
		} else if part != "" && part != "retriable-status-codes" {
			on = append(on, part)
		}
	}
	slices.Sort(on)
	if in.GetRetryOn() != "" && !slices.Equal(slices.Compact(on), usualRetryOn) {
		refuse("retryOn", "a route always retries on "+strings.Join(usualRetryOn, ", ")+", and on status codes",
			"write these, with codes as 503")
	}
	if v := in.GetRetryIgnorePreviousHosts(); v != nil && !v.GetValue() {
		refuse("retryIgnorePreviousHosts", "a route retries at other endpoints", "leave it out")
	}
	if in.GetRetryRemoteLocalities().GetValue() {
		refuse("retryRemoteLocalities", "a route does not prefer other localities for retries", "leave it out")
	}
	if b := in.GetBackoff(); b != nil && b.AsDuration() > 0 {
		out.Backoff = w.duration(field+".backoff", b, &ok)
	}
	return out, in.GetPerTryTimeout().AsDuration(), ok
}

// duration writes a duration as the Gateway API has it (GEP-2257).
func (w *work) duration(field string, in *durationpb.Duration, ok *bool) *gatewayv1.Duration {
	d := in.AsDuration()
	if d%time.Millisecond != 0 || d < 0 || d >= 100_000*time.Hour {
		w.lose(field, "a route has durations in whole milliseconds, up to 99999 hours", "")
		*ok = false
		return nil
	}
	var out strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.of; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, unit.name)
		}
		d %= unit.of
	}
	if out.Len() == 0 {
		out.WriteString("0s")
	}
	return ptr(gatewayv1.Duration(out.String()))
}
