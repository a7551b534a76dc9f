package traffic

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// matchesAll reports whether a match of an http route has no condition: it is empty, or a path prefix of "/" or "".
func matchesAll(m *networking.HTTPMatchRequest) bool {
	prefix, isPrefix := m.GetUri().GetMatchType().(*networking.StringMatch_Prefix)
	anyPath := m.Uri == nil || isPrefix && (prefix.Prefix == "/" || prefix.Prefix == "")
	return anyPath && m.Scheme == nil && m.Method == nil && m.Authority == nil && len(m.Headers) == 0 && m.Port == 0 &&
		len(m.SourceLabels) == 0 &&
		len(m.Gateways) == 0 && len(m.QueryParams) == 0 && len(m.WithoutHeaders) == 0 &&
		m.SourceNamespace == ""
}

// checkHTTPMatch checks a match block; claims says whether conditions on claims are allowed in it.
func checkHTTPMatch(c *rule.Check, at *report.Path, m *networking.HTTPMatchRequest, claims bool) {
	if prefix, ok := m.GetUri().GetMatchType().(*networking.StringMatch_Prefix); !ok || prefix.Prefix != "" {
		checkStringMatch(c, at.Key("uri"), m.Uri, true)
	}
	checkStringMatch(c, at.Key("scheme"), m.Scheme, true)
	checkStringMatch(c, at.Key("method"), m.Method, true)
	checkStringMatch(c, at.Key("authority"), m.Authority, true)
	for _, f := range []struct {
		name    string
		matches map[string]*networking.StringMatch
		header  bool
	}{{"headers", m.Headers, true}, {"withoutHeaders", m.WithoutHeaders, true}, {"queryParams", m.QueryParams, false}} {
		list := at.Key(f.name)
		for _, name := range slices.Sorted(maps.Keys(f.matches)) {
			here := list.Key(name)
			if f.header {
				checkMatchedName(c, here, name, claims)
			} else if name == "" {
				c.Fail(here, code.BadName, "a query parameter without a name", "")
			}
			if f.name == "withoutHeaders" && f.matches[name].GetRegex() == "*" {
				continue // no expression, but Istio's word for any value
			}
			checkStringMatch(c, here, f.matches[name], false)
		}
	}
	if m.Port != 0 {
		c.Port(at.Key("port"), m.Port)
	}
	labels := at.Key("sourceLabels")
	checkLabels(c, &labels, m.SourceLabels)
	gateways := at.Key("gateways")
	checkGatewayNames(c, &gateways, m.Gateways)
}

// checkStringMatch checks one match. An empty prefix or expression matches everything, which is never intended.
func checkStringMatch(c *rule.Check, at report.Path, m *networking.StringMatch, needed bool) {
	switch t := m.GetMatchType().(type) {
	case nil:
		if m != nil && needed {
			c.Fail(at, code.Missing, "the match has no condition", "write exact, prefix or regex")
		}
	case *networking.StringMatch_Prefix:
		if t.Prefix == "" {
			c.Fail(at.Key("prefix"), code.BadMatch, "an empty prefix matches everything", `leave the match out, or write "/"`)
		}
	case *networking.StringMatch_Regex:
		if t.Regex == "" {
			c.Fail(at.Key("regex"), code.BadMatch, "an empty expression matches everything", "leave the match out")
		}
		checkRegex(c, at.Key("regex"), t.Regex)
	}
}

func checkHeaders(c *rule.Check, at *report.Path, h *networking.Headers) {
	for _, f := range []struct {
		name string
		ops  *networking.Headers_HeaderOperations
	}{{"request", h.GetRequest()}, {"response", h.GetResponse()}} {
		here := at.Key(f.name)
		for _, m := range []struct {
			name   string
			values map[string]string
		}{{"set", f.ops.GetSet()}, {"add", f.ops.GetAdd()}} {
			list := here.Key(m.name)
			for _, name := range slices.Sorted(maps.Keys(m.values)) {
				c.HeaderName(list.Key(name), name)
			}
		}
		for i, name := range f.ops.GetRemove() {
			c.HeaderName(here.Of("remove", i), name)
		}
	}
}

func checkFault(c *rule.Check, at *report.Path, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	here := at.Key("fault")
	if f.Abort == nil && f.Delay == nil {
		c.Fail(here, code.Missing, "the fault does nothing", "give it a delay or an abort")
	}
	if a := f.Abort; a != nil {
		abort := here.Key("abort")
		c.Percent(abort.Key("percentage"), a.GetPercentage().GetValue())
		switch t := a.ErrorType.(type) {
		case nil:
			c.Fail(abort, code.Missing, "the abort has no status", "set httpStatus or grpcStatus")
		case *networking.HTTPFaultInjection_Abort_HttpStatus:
			if t.HttpStatus < 200 || t.HttpStatus > 599 {
				c.Warn(abort.Key("httpStatus"), code.BadStatus,
					fmt.Sprintf("%d is not a status that can be answered: requests are not aborted", t.HttpStatus),
					"write 200 to 599")
			}
		case *networking.HTTPFaultInjection_Abort_GrpcStatus:
			if !isGRPCStatus(t.GrpcStatus) {
				c.Fail(abort.Key("grpcStatus"), code.BadStatus, strconv.Quote(t.GrpcStatus)+" is not a gRPC status",
					"write UNAVAILABLE, or another name of a status code")
			}
		case *networking.HTTPFaultInjection_Abort_Http2Error:
			c.Fail(abort.Key("http2Error"), code.NotSupported, "http2Error is not implemented by Envoy", "set httpStatus or grpcStatus")
		}
	}
	if d := f.Delay; d != nil {
		delay := here.Key("delay")
		c.Percent(delay.Key("percentage"), d.GetPercentage().GetValue())
		if d.HttpDelayType == nil {
			c.Fail(delay, code.Missing, "the delay has no length", "set fixedDelay")
		}
		c.Duration(delay.Key("fixedDelay"), d.GetFixedDelay(), time.Millisecond)
		if d.GetExponentialDelay() != nil {
			c.Fail(delay.Key("exponentialDelay"), code.NotSupported, "exponentialDelay is not implemented by Envoy", "set fixedDelay")
		}
	}
}

// isGRPCStatus knows the names of https://grpc.io/docs/guides/status-codes/.
func isGRPCStatus(s string) bool {
	return rule.OneOf(s, "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
		"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED")
}

func checkMirrors(c *rule.Check, at *report.Path, r *networking.HTTPRoute) {
	if r.Mirror != nil {
		checkDestination(c, at.Key("mirror"), r.Mirror)
		if len(r.Mirrors) > 0 {
			c.Fail(at.Key("mirrors"), code.Conflict, "mirror and mirrors exclude each other", "move mirror into mirrors")
		}
	}
	if p := r.MirrorPercentage; p != nil {
		c.Percent(at.Key("mirrorPercentage"), p.Value)
	}
	if p := r.MirrorPercent; p != nil { //nolint:staticcheck // deprecated by Istio, still taken
		c.Percent(at.Key("mirrorPercent"), float64(p.Value))
	}
	for i, m := range r.Mirrors {
		here := at.Of("mirrors", i)
		checkDestination(c, here.Key("destination"), m.Destination)
		if m.Percentage != nil {
			c.Percent(here.Key("percentage"), m.Percentage.Value)
		}
	}
}

// Retries checks how a request is tried again, in an http route and in the mesh configuration.
func Retries(c *rule.Check, at *report.Path, r *networking.HTTPRetry) {
	if r == nil {
		return
	}
	here := at.Key("retries")
	if r.Attempts < 0 {
		c.Fail(here.Key("attempts"), code.BadNumber, "attempts cannot be negative", "write 0 to switch retries off")
	}
	if r.Attempts == 0 && (r.PerTryTimeout != nil || r.RetryOn != "" || r.RetryRemoteLocalities != nil) {
		c.Fail(here.Key("attempts"), code.Conflict, "with 0 attempts there is nothing to configure", "set attempts to 1 or more")
	}
	c.Duration(here.Key("perTryTimeout"), r.PerTryTimeout, time.Millisecond)
	c.Duration(here.Key("backoff"), r.Backoff, time.Millisecond)
	for _, on := range strings.Split(r.RetryOn, ",") {
		on = strings.TrimSpace(on)
		if code, err := strconv.Atoi(on); err == nil && http.StatusText(code) != "" {
			continue
		}
		if on != "" && !slices.Contains(mesh.RetryConditions[:], on) {
			c.Fail(here.Key("retryOn"), code.UnknownValue, strconv.Quote(on)+" is not a condition to retry on",
				"write conditions of Envoy's x-envoy-retry-on and x-envoy-retry-grpc-on, or status codes")
		}
	}
}

func checkRewrite(c *rule.Check, at *report.Path, r *networking.HTTPRewrite) {
	if r == nil {
		return
	}
	here := at.Key("rewrite")
	switch {
	case r.Uri == "" && r.Authority == "" && r.UriRegexRewrite == nil:
		c.Fail(here, code.Missing, "the rewrite rewrites nothing", "set uri, uriRegexRewrite or authority")
	case r.Uri != "" && r.UriRegexRewrite != nil:
		c.Fail(here.Key("uriRegexRewrite"), code.Conflict, "uri and uriRegexRewrite exclude each other", "keep one of the two")
	}
	if r.UriRegexRewrite != nil {
		regex := here.Key("uriRegexRewrite")
		if r.UriRegexRewrite.Match == "" {
			c.Fail(regex.Key("match"), code.Missing, "the expression is empty", "")
		}
		if r.UriRegexRewrite.Rewrite == "" {
			c.Fail(
				regex.Key("rewrite"), code.Missing, "there is nothing to write in its place",
				`write what the path becomes; \1 is the first group`,
			)
		}
		checkRegex(c, regex.Key("match"), r.UriRegexRewrite.Match)
	}
}

// checkAuthority: the authority of a request is changed in one place: by the rewrite, or by one header.
func checkAuthority(c *rule.Check, at *report.Path, r *networking.HTTPRoute) {
	by := ""
	if r.Rewrite.GetAuthority() != "" {
		by = "rewrite.authority"
	}
	headers := at.Key("headers")
	request := headers.Key("request")
	for _, m := range []struct {
		name   string
		values map[string]string
	}{{"set", r.Headers.GetRequest().GetSet()}, {"add", r.Headers.GetRequest().GetAdd()}} {
		list := request.Key(m.name)
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			switch {
			case !rule.OneOf(name, "host", ":authority"):
			case by == "":
				by = "headers.request." + m.name
			default:
				c.Fail(list.Key(name), code.Conflict, by+" changes the authority already", "change it in one place")
			}
		}
	}
}

// checkPrefixRewrite: a redirect replaces the prefix that its route was found by, or else the path that matched
// (virtual_service.proto, HTTPRedirect.prefix_rewrite).
func checkPrefixRewrite(c *rule.Check, at report.Path, r *networking.HTTPRoute) {
	switch {
	case r.Redirect.PrefixRewrite == "":
	case r.Redirect.Uri != "":
		c.Fail(at, code.Conflict, "uri and prefixRewrite exclude each other", "keep one of the two")
	case len(r.Match) == 0 || slices.ContainsFunc(r.Match, withoutPrefix):
		c.Warn(at, code.PrefixRewriteWithoutPrefix,
			"not every match is by a prefix: if none is, the whole path is replaced", "match uri by prefix")
	}
}

func withoutPrefix(m *networking.HTTPMatchRequest) bool { return m.GetUri().GetPrefix() == "" }

func checkRedirect(c *rule.Check, at *report.Path, route *networking.HTTPRoute) {
	r := route.Redirect
	if r == nil {
		return
	}
	here := at.Key("redirect")
	checkPrefixRewrite(c, here.Key("prefixRewrite"), route)
	if r.Uri == "" && r.Authority == "" && r.Scheme == "" && r.RedirectCode == 0 && r.RedirectPort == nil && r.PrefixRewrite == "" {
		c.Fail(here, code.Missing, "the redirect changes nothing", "set uri, authority, scheme, port or redirectCode")
	}
	if n := r.RedirectCode; n != 0 && n != 301 && n != 302 && n != 303 && n != 307 && n != 308 {
		c.Fail(here.Key("redirectCode"), code.BadStatus, fmt.Sprintf("%d is not a redirect that Envoy can answer", n),
			"write 301, 302, 303, 307 or 308")
	}
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		c.Fail(here.Key("scheme"), code.UnknownValue, strconv.Quote(r.Scheme)+" is not a scheme", "write http or https")
	}
	if port, ok := r.RedirectPort.(*networking.HTTPRedirect_Port); ok {
		c.Port(here.Key("port"), port.Port)
	}
}

// maxBody is the largest body of a direct response: Istio's limit, and the limit that every route configuration of ours sets.
const maxBody = 1 << 20

func checkDirectResponse(c *rule.Check, at *report.Path, r *networking.HTTPDirectResponse) {
	if r == nil {
		return
	}
	here := at.Key("directResponse")
	if r.Status < 200 || r.Status > 599 {
		c.Fail(here.Key("status"), code.BadStatus, fmt.Sprintf("%d is not a status that can be answered", r.Status), "write 200 to 599")
	}
	if n := len(r.Body.GetString_()) + len(r.Body.GetBytes()); n > maxBody {
		c.Fail(here.Key("body"), code.TooMuch, fmt.Sprintf("the body has %d bytes", n), fmt.Sprintf("keep it within %d", maxBody))
	}
}

// methods returns the methods of RFC 9110, section 9, and PATCH of RFC 5789.
func methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
}

func checkCors(c *rule.Check, at *report.Path, p *networking.CorsPolicy) {
	if p == nil {
		return
	}
	here := at.Key("corsPolicy")
	for i, o := range p.AllowOrigins {
		origin := here.Of("allowOrigins", i)
		checkStringMatch(c, origin, o, true)
		if exact, is := o.GetMatchType().(*networking.StringMatch_Exact); is && exact.Exact == "" {
			c.Fail(origin.Key("exact"), code.BadMatch, "the origin is empty", "write https://example.com")
		}
	}
	for i, m := range p.AllowMethods {
		if !slices.Contains(methods(), m) {
			c.Fail(
				here.Of("allowMethods", i), code.BadMethod, strconv.Quote(m)+" is not a method",
				"write one of "+strings.Join(methods(), ", "),
			)
		}
	}
	for i, h := range p.AllowHeaders {
		c.HeaderName(here.Of("allowHeaders", i), h)
	}
	for i, h := range p.ExposeHeaders {
		c.HeaderName(here.Of("exposeHeaders", i), h)
	}
	if d := p.MaxAge; d != nil && (d.Nanos != 0 || d.Seconds < 0) {
		c.Fail(here.Key("maxAge"), code.BadDuration, "maxAge counts whole seconds", "write 60s")
	}
}
