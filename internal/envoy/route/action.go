package route

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// MaxDirectBody is the maximum size of a direct response in bytes, which route configurations allow.
const MaxDirectBody = 1 << 20

// action builds the action of a route: a redirect, a fixed response or a cluster. It returns false if the rule has no valid action. The
// host and port are those of the destination, if there is only one.
func (b *Builder) action(
	r *routev3.Route,
	rule Rule,
	field string,
	in *networking.HTTPRoute,
	m *networking.HTTPMatchRequest,
) (to string, ok bool) {
	switch {
	case in.GetRedirect() != nil:
		r.Action = &routev3.Route_Redirect{Redirect: b.redirect(field+".redirect", in.GetRedirect())}
	case in.GetDirectResponse() != nil:
		return "", b.direct(r, field+".directResponse", in.GetDirectResponse())
	case len(in.GetRoute()) > 0:
		return b.forward(r, rule, field, in), true
	default:
		b.problem(mesh.Error, code.EmptyRoute, field,
			"this route has no destination and no response: it is left out",
			"give it route, redirect or directResponse")
		return "", false
	}
	return "", true
}

// redirect translates HTTPRedirect.
func (b *Builder) redirect(field string, in *networking.HTTPRedirect) *routev3.RedirectAction {
	out := &routev3.RedirectAction{ResponseCode: b.redirectCode(field+".redirectCode", in.GetRedirectCode())}
	if b.plain(field+".authority", in.GetAuthority()) {
		out.HostRedirect = in.GetAuthority()
	}
	if s := in.GetScheme(); s != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: s}
	}
	switch {
	case in.GetUri() != "" && b.plain(field+".uri", in.GetUri()):
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.GetUri()}
	case in.GetPrefixRewrite() != "" && b.plain(field+".prefixRewrite", in.GetPrefixRewrite()):
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: in.GetPrefixRewrite()}
	}
	out.PortRedirect = b.redirectPort(field, in)
	return out
}

// redirectPort translates port and derivePort. By default Envoy itself takes the protocol's default port. The request's port is the port
// that this route is built for.
func (b *Builder) redirectPort(field string, in *networking.HTTPRedirect) uint32 {
	port := in.GetPort()
	if d, ok := in.GetRedirectPort().(*networking.HTTPRedirect_DerivePort); ok &&
		d.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
		port = b.Viewer.Port
	}
	if port > 65535 {
		b.problem(mesh.Error, code.BadPort, field+".port", fmt.Sprintf("%d is not a port: it is ignored", port), "use 1 to 65535")
		return 0
	}
	return port
}

// redirectCode translates the codes that Envoy can redirect with.
func (b *Builder) redirectCode(field string, status uint32) routev3.RedirectAction_RedirectResponseCode {
	switch status {
	case 0, 301:
		return routev3.RedirectAction_MOVED_PERMANENTLY
	case 302:
		return routev3.RedirectAction_FOUND
	case 303:
		return routev3.RedirectAction_SEE_OTHER
	case 307:
		return routev3.RedirectAction_TEMPORARY_REDIRECT
	case 308:
		return routev3.RedirectAction_PERMANENT_REDIRECT
	}
	b.problem(mesh.Error, code.BadRedirectCode, field, fmt.Sprintf("%d is not a redirect: 301 is sent", status),
		"use 301, 302, 303, 307 or 308")
	return routev3.RedirectAction_MOVED_PERMANENTLY
}

// plain reports whether a value may be in a message to Envoy. Otherwise it notes a problem, and the value is left out.
func (b *Builder) plain(field, value string) bool {
	if text(value) {
		return true
	}
	b.problem(mesh.Error, code.BadCharacter, field, quote(value)+" holds a control character: it is ignored", "")
	return false
}

// direct translates HTTPDirectResponse.
func (b *Builder) direct(r *routev3.Route, field string, in *networking.HTTPDirectResponse) bool {
	status := in.GetStatus()
	if status < 200 || status > 599 {
		b.problem(mesh.Error, code.BadStatus, field+".status",
			fmt.Sprintf("%d is not a status to answer with: this route is left out", status), "use 200 to 599")
		return false
	}
	out := &routev3.DirectResponseAction{Status: status}
	switch s := in.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		if b.fits(field+".body", len(s.String_)) && s.String_ != "" {
			out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s.String_}}
		}
	case *networking.HTTPBody_Bytes:
		if b.fits(field+".body", len(s.Bytes)) && len(s.Bytes) > 0 {
			out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: s.Bytes}}
		}
	}
	r.Action = &routev3.Route_DirectResponse{DirectResponse: out}
	return true
}

func (b *Builder) fits(field string, n int) bool {
	if n > MaxDirectBody {
		b.problem(mesh.Error, code.BodyTooLarge, field,
			fmt.Sprintf("%d bytes are more than the 1048576 that Envoy answers with: the body is left out", n), "")
		return false
	}
	return true
}

// forward sends requests to the rule's destinations. It returns the host and port of the destination, if there is only one.
func (b *Builder) forward(r *routev3.Route, rule Rule, field string, in *networking.HTTPRoute) string {
	limit := timeout(in.GetTimeout())
	action := &routev3.RouteAction{
		// A gRPC request with grpc-timeout gets the smaller of both. max_stream_duration, which replaces max_grpc_timeout, stays unset:
		// with it, Envoy ignores the timeout of other requests.
		Timeout:               limit,
		MaxGrpcTimeout:        limit, //nolint:staticcheck // see above
		RetryPolicy:           b.retry(field+".retries", in.GetRetries()),
		RequestMirrorPolicies: b.mirrors(rule, field, in),
	}
	r.Action = &routev3.Route_Route{Route: action}
	b.rewrite(action, field+".rewrite", in.GetRewrite())
	return b.destinations(r, action, rule, field+".route", in.GetRoute())
}

// timeout is a request's timeout; none is unlimited (HTTPRoute.timeout).
func timeout(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return &durationpb.Duration{}
	}
	return d
}

// rewrite translates HTTPRewrite.
func (b *Builder) rewrite(action *routev3.RouteAction, field string, in *networking.HTTPRewrite) {
	if in.GetAuthority() != "" && b.plain(field+".authority", in.GetAuthority()) {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: in.GetAuthority()}
	}
	switch re := in.GetUriRegexRewrite(); {
	case re != nil && re.GetMatch() != "":
		if b.regex(field+".uriRegexRewrite.match", re.GetMatch()) && b.substitution(field+".uriRegexRewrite", re) {
			action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{Pattern: regexMatcher(re.GetMatch()), Substitution: re.GetRewrite()}
		}
	case in.GetUri() != "" && b.plain(field+".uri", in.GetUri()):
		action.PrefixRewrite = in.GetUri()
	}
}

// substitution reports whether Envoy accepts a rewrite: it may only refer to groups (\\0 to \\9) that exist.
func (b *Builder) substitution(field string, re *networking.RegexRewrite) bool {
	groups := 0
	if p, err := syntax.Parse(re.GetMatch(), syntax.Perl); err == nil {
		groups = p.MaxCap()
	}
	for s := re.GetRewrite(); ; {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return b.plain(field+".rewrite", re.GetRewrite())
		}
		if s = s[i+1:]; s == "" || s[0] != '\\' && (s[0] < '0' || s[0] > '9' || int(s[0]-'0') > groups) {
			b.problem(
				mesh.Error,
				code.BadRewrite,
				field+".rewrite",
				fmt.Sprintf("%s refers to a group that the match, with %d, does not have: paths are not rewritten",
					quote(re.GetRewrite()), groups),
				"",
			)
			return false
		}
		s = s[1:]
	}
}

// destinations sets one cluster, or several by weight. It returns the host and port of the destination, if there is only one.
func (b *Builder) destinations(
	r *routev3.Route,
	action *routev3.RouteAction,
	rule Rule,
	field string,
	in []*networking.HTTPRouteDestination,
) string {
	total := uint64(0)
	weighted := &routev3.WeightedCluster{}
	for i, d := range in {
		if d.GetWeight() <= 0 && len(in) > 1 {
			continue
		}
		at := index(field, i)
		t := b.target(rule, at+".destination", d.GetDestination())
		action.HashPolicy = addHash(action.HashPolicy, t.Hash)
		guard(r.Match, t)
		if t.Resolves {
			b.wants |= envoy.WantsNames
		}
		if len(in) == 1 {
			action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: t.Cluster.String()}
			b.routeHeaders(r, at+".headers", d.GetHeaders())
			return authority(t.Cluster)
		}
		w := &routev3.WeightedCluster_ClusterWeight{Name: t.Cluster.String(), Weight: wrapperspb.UInt32(uint32(d.GetWeight()))}
		b.weightHeaders(w, at+".headers", d.GetHeaders())
		weighted.Clusters = append(weighted.Clusters, w)
		total += uint64(d.GetWeight())
	}
	if total == 0 || total > 1<<32-1 {
		b.problem(mesh.Error, code.BadWeights, field, fmt.Sprintf("the weights add up to %d: requests are answered 503", total),
			"give at least one destination a weight; they may add up to 4294967295")
		r.Action = unavailable()
		return ""
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return ""
}

// guard limits a route to requests that may go to a target. Without this limit, the proxy would connect to any name that a client chooses,
// as an open proxy.
func guard(m *routev3.RouteMatch, t Target) {
	if t.Under == "" {
		return
	}
	only := dynamic.Under(t.Under)
	if !slices.ContainsFunc(m.Headers, func(h *routev3.HeaderMatcher) bool { return proto.Equal(h, only) }) {
		m.Headers = append(m.Headers, only)
	}
}

// unavailable returns the response of a route without a destination.
func unavailable() *routev3.Route_DirectResponse {
	return &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503}}
}

// mirrors translates mirror with its percentages, and mirrors.
func (b *Builder) mirrors(rule Rule, field string, in *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	if d := in.GetMirror(); d != nil {
		out = b.mirror(out, rule, field+".mirror", d, mirrorPercent(in))
	}
	for i, m := range in.GetMirrors() {
		percent := 100.0
		if m.GetPercentage() != nil {
			percent = m.GetPercentage().GetValue()
		}
		out = b.mirror(out, rule, index(field+".mirrors", i)+".destination", m.GetDestination(), percent)
	}
	return out
}

func mirrorPercent(in *networking.HTTPRoute) float64 {
	if in.GetMirrorPercentage() != nil {
		return in.GetMirrorPercentage().GetValue()
	}
	//nolint:staticcheck // mirror_percent is deprecated, and users have it
	if old := in.GetMirrorPercent(); old != nil {
		return float64(old.GetValue())
	}
	return 100
}

func (b *Builder) mirror(
	out []*routev3.RouteAction_RequestMirrorPolicy,
	rule Rule,
	field string,
	d *networking.Destination,
	percent float64,
) []*routev3.RouteAction_RequestMirrorPolicy {
	fraction := fraction(percent)
	if fraction.GetNumerator() == 0 {
		return out
	}
	t := b.target(rule, field, d)
	if t.Under != "" {
		b.problem(mesh.Error, code.NotUnder, field+".host",
			"copies of requests are for no name that could be resolved: nothing is mirrored to "+string(t.Under), "name a host of your own")
		return out
	}
	return append(out, &routev3.RouteAction_RequestMirrorPolicy{
		Cluster:         t.Cluster.String(),
		RuntimeFraction: runtime(fraction),
		// A copy does not belong to the caller's trace.
		TraceSampled: wrapperspb.Bool(false),
	})
}

// decorate sets the name of the operation in traces: the host and port of the destination with a path, or the rule's name if there is not
// exactly one destination.
func decorate(r *routev3.Route, authority, rule string, port uint32, m *networking.HTTPMatchRequest) {
	if authority == "" {
		authority = rule + ":" + strconv.FormatUint(uint64(port), 10)
	}
	path := "/*"
	switch t := m.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		path = t.Exact
	case *networking.StringMatch_Prefix:
		path = t.Prefix + "*"
	case *networking.StringMatch_Regex:
		path = t.Regex
	}
	r.Decorator = &routev3.Decorator{Operation: authority + path}
}

func authority(c mesh.ClusterKey) string {
	return string(c.Host) + ":" + strconv.FormatUint(uint64(c.Port), 10)
}
