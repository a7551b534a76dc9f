package config

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// matchesAll says whether a match of an http route has no condition: the empty one, or a path prefix of "/", which "" is too.
func matchesAll(m *networking.HTTPMatchRequest) bool {
	prefix, isPrefix := m.GetUri().GetMatchType().(*networking.StringMatch_Prefix)
	anyPath := m.Uri == nil || isPrefix && (prefix.Prefix == "/" || prefix.Prefix == "")
	return anyPath && m.Scheme == nil && m.Method == nil && m.Authority == nil && len(m.Headers) == 0 && m.Port == 0 &&
		len(m.SourceLabels) == 0 &&
		len(m.Gateways) == 0 && len(m.QueryParams) == 0 && len(m.WithoutHeaders) == 0 &&
		m.SourceNamespace == ""
}

// checkHTTPMatch checks a match block; claims tells whether conditions on claims may stand in it.
func checkHTTPMatch(c *check, at *path, m *networking.HTTPMatchRequest, claims bool) {
	if prefix, ok := m.GetUri().GetMatchType().(*networking.StringMatch_Prefix); !ok || prefix.Prefix != "" {
		c.stringMatch(at.key("uri"), m.Uri, true)
	}
	c.stringMatch(at.key("scheme"), m.Scheme, true)
	c.stringMatch(at.key("method"), m.Method, true)
	c.stringMatch(at.key("authority"), m.Authority, true)
	for _, f := range []struct {
		name    string
		matches map[string]*networking.StringMatch
		header  bool
	}{{"headers", m.Headers, true}, {"withoutHeaders", m.WithoutHeaders, true}, {"queryParams", m.QueryParams, false}} {
		list := at.key(f.name)
		for _, name := range sortedKeys(f.matches) {
			here := list.key(name)
			if f.header {
				c.matchedName(here, name, claims)
			} else if name == "" {
				c.fail(here, "BadName", "a query parameter without a name", "")
			}
			if f.name == "withoutHeaders" && f.matches[name].GetRegex() == "*" {
				continue // no expression, but Istio's word for any value
			}
			c.stringMatch(here, f.matches[name], false)
		}
	}
	if m.Port != 0 {
		c.port(at.key("port"), m.Port)
	}
	labels := at.key("sourceLabels")
	c.labels(&labels, m.SourceLabels)
	gateways := at.key("gateways")
	c.gatewayNames(&gateways, m.Gateways)
}

// stringMatch checks one match. Empty prefixes and expressions match everything, which nobody means to write.
func (c *check) stringMatch(at path, m *networking.StringMatch, needed bool) {
	switch t := m.GetMatchType().(type) {
	case nil:
		if m != nil && needed {
			c.fail(at, "Missing", "the match has no condition", "write exact, prefix or regex")
		}
	case *networking.StringMatch_Prefix:
		if t.Prefix == "" {
			c.fail(at.key("prefix"), "BadMatch", "an empty prefix matches everything", `leave the match out, or write "/"`)
		}
	case *networking.StringMatch_Regex:
		if t.Regex == "" {
			c.fail(at.key("regex"), "BadMatch", "an empty expression matches everything", "leave the match out")
		}
		c.regex(at.key("regex"), t.Regex)
	}
}

// headerName checks the name of a header by RFC 9110, section 5.1; Envoy also knows pseudo headers by a leading colon.
func (c *check) headerName(at path, name string) {
	if name == "" {
		c.fail(at, "BadHeader", "a header without a name", "")
		return
	}
	for _, r := range strings.TrimPrefix(name, ":") {
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			c.fail(at, "BadHeader", quote(name)+" is not a header's name", "write letters, digits and '-'")
			return
		}
	}
}

func checkHeaders(c *check, at *path, h *networking.Headers) {
	for _, f := range []struct {
		name string
		ops  *networking.Headers_HeaderOperations
	}{{"request", h.GetRequest()}, {"response", h.GetResponse()}} {
		here := at.key(f.name)
		for _, m := range []struct {
			name   string
			values map[string]string
		}{{"set", f.ops.GetSet()}, {"add", f.ops.GetAdd()}} {
			list := here.key(m.name)
			for _, name := range sortedKeys(m.values) {
				c.headerName(list.key(name), name)
			}
		}
		for i, name := range f.ops.GetRemove() {
			c.headerName(here.of("remove", i), name)
		}
	}
}

func checkFault(c *check, at *path, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	here := at.key("fault")
	if f.Abort == nil && f.Delay == nil {
		c.fail(here, "Missing", "the fault does nothing", "give it a delay or an abort")
	}
	if a := f.Abort; a != nil {
		abort := here.key("abort")
		c.percent(abort.key("percentage"), a.GetPercentage().GetValue())
		switch t := a.ErrorType.(type) {
		case nil:
			c.fail(abort, "Missing", "the abort has no status", "set httpStatus or grpcStatus")
		case *networking.HTTPFaultInjection_Abort_HttpStatus:
			if t.HttpStatus < 200 || t.HttpStatus > 599 {
				c.fail(
					abort.key("httpStatus"),
					"BadStatus",
					fmt.Sprintf("%d is not a status that can be answered", t.HttpStatus),
					"write 200 to 599",
				)
			}
		case *networking.HTTPFaultInjection_Abort_GrpcStatus:
			if !isGRPCStatus(t.GrpcStatus) {
				c.fail(
					abort.key("grpcStatus"),
					"BadStatus",
					quote(t.GrpcStatus)+" is not a gRPC status",
					"write UNAVAILABLE, or another name of a status code",
				)
			}
		case *networking.HTTPFaultInjection_Abort_Http2Error:
			c.fail(abort.key("http2Error"), "NotSupported", "http2Error is not implemented by Envoy", "set httpStatus or grpcStatus")
		}
	}
	if d := f.Delay; d != nil {
		delay := here.key("delay")
		c.percent(delay.key("percentage"), d.GetPercentage().GetValue())
		if d.HttpDelayType == nil {
			c.fail(delay, "Missing", "the delay has no length", "set fixedDelay")
		}
		c.duration(delay.key("fixedDelay"), d.GetFixedDelay(), time.Millisecond)
		if d.GetExponentialDelay() != nil {
			c.fail(delay.key("exponentialDelay"), "NotSupported", "exponentialDelay is not implemented by Envoy", "set fixedDelay")
		}
	}
}

// isGRPCStatus knows the names of https://grpc.io/docs/guides/status-codes/.
func isGRPCStatus(s string) bool {
	return oneOf(
		s,
		"OK",
		"CANCELLED",
		"UNKNOWN",
		"INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED",
		"NOT_FOUND",
		"ALREADY_EXISTS",
		"PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION",
		"ABORTED",
		"OUT_OF_RANGE",
		"UNIMPLEMENTED",
		"INTERNAL",
		"UNAVAILABLE",
		"DATA_LOSS",
		"UNAUTHENTICATED",
	)
}

func checkMirrors(c *check, at *path, r *networking.HTTPRoute) {
	if r.Mirror != nil {
		checkDestination(c, at.key("mirror"), r.Mirror)
		if len(r.Mirrors) > 0 {
			c.fail(at.key("mirrors"), "Conflict", "mirror and mirrors exclude each other", "move mirror into mirrors")
		}
	}
	if p := r.MirrorPercentage; p != nil {
		c.percent(at.key("mirrorPercentage"), p.Value)
	}
	if p := r.MirrorPercent; p != nil { //nolint:staticcheck // deprecated by Istio, still taken
		c.percent(at.key("mirrorPercent"), float64(p.Value))
	}
	for i, m := range r.Mirrors {
		here := at.of("mirrors", i)
		checkDestination(c, here.key("destination"), m.Destination)
		if m.Percentage != nil {
			c.percent(here.key("percentage"), m.Percentage.Value)
		}
	}
}

func checkRetries(c *check, at *path, r *networking.HTTPRetry) {
	if r == nil {
		return
	}
	here := at.key("retries")
	if r.Attempts < 0 {
		c.fail(here.key("attempts"), "BadNumber", "attempts cannot be negative", "write 0 to switch retries off")
	}
	if r.Attempts == 0 && (r.PerTryTimeout != nil || r.RetryOn != "" || r.RetryRemoteLocalities != nil) {
		c.fail(here.key("attempts"), "Conflict", "with 0 attempts there is nothing to configure", "set attempts to 1 or more")
	}
	for _, on := range strings.Split(r.RetryOn, ",") {
		on = strings.TrimSpace(on)
		if code, err := strconv.Atoi(on); err == nil && http.StatusText(code) != "" {
			continue
		}
		if on != "" && !isRetryCondition(on) {
			c.fail(
				here.key("retryOn"),
				"UnknownValue",
				quote(on)+" is not a condition to retry on",
				"write conditions of Envoy's x-envoy-retry-on and x-envoy-retry-grpc-on, or status codes",
			)
		}
	}
}

// isRetryCondition knows x-envoy-retry-on and x-envoy-retry-grpc-on
// (https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter#x-envoy-retry-on).
func isRetryCondition(s string) bool {
	return oneOf(
		s,
		"5xx",
		"gateway-error",
		"reset",
		"reset-before-request",
		"connect-failure",
		"envoy-ratelimited",
		"retriable-4xx",
		"refused-stream",
		"retriable-status-codes",
		"retriable-headers",
		"http3-post-connect-failure",
		"cancelled",
		"deadline-exceeded",
		"internal",
		"resource-exhausted",
		"unavailable",
	)
}

func checkRewrite(c *check, at *path, r *networking.HTTPRewrite) {
	if r == nil {
		return
	}
	here := at.key("rewrite")
	switch {
	case r.Uri == "" && r.Authority == "" && r.UriRegexRewrite == nil:
		c.fail(here, "Missing", "the rewrite rewrites nothing", "set uri, uriRegexRewrite or authority")
	case r.Uri != "" && r.UriRegexRewrite != nil:
		c.fail(here.key("uriRegexRewrite"), "Conflict", "uri and uriRegexRewrite exclude each other", "keep one of the two")
	}
	if r.UriRegexRewrite != nil {
		regex := here.key("uriRegexRewrite")
		if r.UriRegexRewrite.Match == "" {
			c.fail(regex.key("match"), "Missing", "the expression is empty", "")
		}
		c.regex(regex.key("match"), r.UriRegexRewrite.Match)
	}
}

func checkRedirect(c *check, at *path, r *networking.HTTPRedirect) {
	if r == nil {
		return
	}
	here := at.key("redirect")
	if r.Uri == "" && r.Authority == "" && r.Scheme == "" && r.RedirectCode == 0 && r.RedirectPort == nil && r.PrefixRewrite == "" {
		c.fail(here, "Missing", "the redirect changes nothing", "set uri, authority, scheme, port or redirectCode")
	}
	if code := r.RedirectCode; code != 0 && code != 301 && code != 302 && code != 303 && code != 307 && code != 308 {
		c.fail(
			here.key("redirectCode"),
			"BadStatus",
			fmt.Sprintf("%d is not a redirect that Envoy can answer", code),
			"write 301, 302, 303, 307 or 308",
		)
	}
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		c.fail(here.key("scheme"), "UnknownValue", quote(r.Scheme)+" is not a scheme", "write http or https")
	}
	if port, ok := r.RedirectPort.(*networking.HTTPRedirect_Port); ok {
		c.port(here.key("port"), port.Port)
	}
}

// maxBody is what a response of ours may hold: Istio's limit, and the limit that every route configuration of ours sets.
const maxBody = 1 << 20

func checkDirectResponse(c *check, at *path, r *networking.HTTPDirectResponse) {
	if r == nil {
		return
	}
	here := at.key("directResponse")
	if r.Status < 200 || r.Status > 599 {
		c.fail(here.key("status"), "BadStatus", fmt.Sprintf("%d is not a status that can be answered", r.Status), "write 200 to 599")
	}
	if n := len(r.Body.GetString_()) + len(r.Body.GetBytes()); n > maxBody {
		c.fail(here.key("body"), "TooMuch", fmt.Sprintf("the body has %d bytes", n), fmt.Sprintf("keep it within %d", maxBody))
	}
}

func checkCors(c *check, at *path, p *networking.CorsPolicy) {
	if p == nil {
		return
	}
	here := at.key("corsPolicy")
	for i, o := range p.AllowOrigins {
		c.stringMatch(here.of("allowOrigins", i), o, true)
	}
	for i, m := range p.AllowMethods {
		if m != "*" && (m == "" || m != strings.ToUpper(m)) {
			c.fail(here.of("allowMethods", i), "BadMethod", quote(m)+" is not a method", "write it in capitals: GET")
		}
	}
	for i, h := range p.AllowHeaders {
		c.headerName(here.of("allowHeaders", i), h)
	}
	for i, h := range p.ExposeHeaders {
		c.headerName(here.of("exposeHeaders", i), h)
	}
	if d := p.MaxAge; d != nil && (d.Nanos != 0 || d.Seconds < 0) {
		c.fail(here.key("maxAge"), "BadDuration", "maxAge counts whole seconds", "write 60s")
	}
}
