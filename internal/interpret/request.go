package interpret

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"fairway/internal/interpret/paths"
	"fairway/internal/interpret/way"
)

// http is the state of a request in an HTTP connection manager.
type http struct {
	hcm      *hcmv3.HttpConnectionManager
	listener string // the resource of the connection manager
	resource string // the resource of the routes
	at       string

	method, scheme, authority, path string
	hasPath                         bool
	headers                         map[string][]string
	remote                          netip.Addr

	routes  *routev3.RouteConfiguration
	host    *routev3.VirtualHost
	route   *routev3.Route
	part    string // of the route
	cluster string
	weight  *routev3.WeightedCluster_ClusterWeight // the cluster was picked by weight
	reroute bool                                   // a filter asks for another choice of the route
}

// requests follows the request through an HTTP connection manager.
func (w *walk) requests(m *hcmv3.HttpConnectionManager, at string) {
	h := &http{
		hcm: m, at: at, listener: w.Resource, method: w.asked.Method, authority: w.asked.Authority, path: w.asked.Path,
		headers: map[string][]string{},
	}
	switch protocol := w.protocol(); {
	case w.asked.TLS != nil && !w.terminated:
		w.Closed("the client speaks TLS, and the filter chain expects plaintext HTTP")
	case w.asked.TLS == nil && !slices.Contains([]string{"http/1.0", "http/1.1", "h2c"}, protocol):
		w.Closed("the client does not speak HTTP, which the filter chain expects")
	case m.GetCodecType() == hcmv3.HttpConnectionManager_HTTP3:
		w.CannotSay("HTTP/3 is not interpreted")
	case w.asked.TLS == nil && m.GetCodecType() == hcmv3.HttpConnectionManager_HTTP2 && protocol != "h2c",
		w.asked.TLS == nil && m.GetCodecType() == hcmv3.HttpConnectionManager_HTTP1 && protocol == "h2c":
		w.Closed("the client speaks %s, and the filter chain only %s", way.Quote(protocol), m.GetCodecType())
	}
	w.http = h
	for name, values := range w.asked.Headers {
		for _, v := range values {
			h.headers[way.Lower(name)] = append(h.headers[way.Lower(name)], strings.TrimSpace(v))
		}
	}
	if h.method == "" {
		h.method = "GET"
	}
	if h.authority == "" {
		if h.authority = w.asked.Host; w.asked.Port != 80 && w.asked.Port != 0 {
			h.authority += ":" + strconv.Itoa(int(w.asked.Port))
		}
	}
	if h.hasPath = h.method != "CONNECT"; h.hasPath && h.path == "" {
		h.path = "/"
	}
	w.Step("HTTP", w.Resource, at, "%s %s of host %s", way.Quote(h.method), way.Quote(h.path), way.Quote(h.authority))
	w.checkExtensions(m)
	if h.authority == "" {
		w.answer(400, "", "missing_host_header")
	}
	w.normalizePath()
	w.normalizeHost()
	w.forwarded()
	w.loadRoutes()
	w.pickRoute()
	w.httpFilters()
}

// checkExtensions notes settings that change requests in ways that are not interpreted.
func (w *walk) checkExtensions(m *hcmv3.HttpConnectionManager) {
	if len(m.GetEarlyHeaderMutationExtensions()) > 0 {
		w.Doubt("early header mutations are not interpreted")
	}
	if m.GetTypedHeaderValidationConfig() != nil {
		w.Doubt("the header validator is not interpreted")
	}
}

// normalizePath changes the path as the connection manager does before it matches routes.
func (w *walk) normalizePath() {
	h := w.http
	if !h.hasPath {
		return
	}
	if strings.Contains(h.path, "#") {
		w.answer(400, "", "path_normalization_failed")
	}
	before := h.path
	path, query, hasQuery := strings.Cut(h.path, "?")
	action := h.hcm.GetPathWithEscapedSlashesAction()
	if escaped := strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", `\`, "%5c", `\`).Replace(path); escaped != path {
		switch action {
		case hcmv3.HttpConnectionManager_REJECT_REQUEST:
			w.answer(400, "", "path_normalization_failed")
		case hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT, hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD:
			path = escaped
		}
	}
	if h.hcm.GetNormalizePath().GetValue() {
		path = w.canonical(path)
	}
	if h.hcm.GetMergeSlashes() {
		for strings.Contains(path, "//") {
			path = strings.ReplaceAll(path, "//", "/")
		}
	}
	if hasQuery {
		path += "?" + query
	}
	if h.path = path; h.path == before {
		return
	}
	if action == hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT {
		w.CannotSay("the path is normalized, and may be redirected (path_with_escaped_slashes_action), which is not interpreted")
	}
	w.Step("HTTP", w.Resource, h.at, "the path is normalized to %s", way.Quote(h.path))
}

// canonical normalizes a path as RFC 3986 says.
func (w *walk) canonical(path string) string {
	w.Spend(len(path))
	out, known := paths.Canonical(path)
	if !known {
		w.CannotSay("how Envoy normalizes the path %s is not interpreted", way.Quote(path))
	}
	return out
}

// normalizeHost strips ports and dots from the authority, if the connection manager does.
func (w *walk) normalizeHost() {
	h := w.http
	before := h.authority
	if h.hcm.GetStripTrailingHostDot() {
		host, port := paths.SplitPort(h.authority)
		h.authority = strings.TrimSuffix(host, ".") + port
	}
	if host, port := paths.SplitPort(h.authority); port != "" && h.method != "CONNECT" {
		if h.hcm.GetStripAnyHostPort() || h.hcm.GetStripMatchingHostPort() && port == fmt.Sprintf(":%d", w.destination.Port()) {
			h.authority = host
		}
	}
	if h.authority != before {
		w.Step("HTTP", w.Resource, h.at, "the host becomes %s", way.Quote(h.authority))
	}
}

// forwarded finds out the client's address and the scheme.
func (w *walk) forwarded() {
	h := w.http
	h.scheme = "http"
	if w.asked.TLS != nil {
		h.scheme = "https"
	}
	edge, hops := h.hcm.GetUseRemoteAddress().GetValue(), int(min(h.hcm.GetXffNumTrustedHops(), mostHeaders))
	proto := h.headers["x-forwarded-proto"]
	if (!edge || hops > 0) && len(proto) > 0 {
		if p := proto[0]; len(proto) == 1 && (p == "http" || p == "https") {
			h.scheme = p
		}
	}
	switch t := h.hcm.GetSchemeHeaderTransformation(); {
	case t.GetMatchUpstream():
	case t.GetSchemeToOverwrite() != "":
		h.scheme = t.GetSchemeToOverwrite()
	}
	h.headers["x-forwarded-proto"] = []string{h.scheme}
	h.remote = w.source.Addr()
	if len(h.hcm.GetOriginalIpDetectionExtensions()) > 0 {
		h.remote = netip.Addr{}
		return
	}
	var list []string
	for part := range strings.SplitSeq(strings.Join(h.headers["x-forwarded-for"], ","), ",") {
		list = append(list, strings.TrimSpace(part))
	}
	skip := hops
	if edge {
		skip--
	}
	if skip >= 0 && skip < len(list) {
		if a, err := netip.ParseAddr(list[len(list)-1-skip]); err == nil {
			h.remote = a
		}
	}
}

// changed are headers that Envoy itself sets or removes before routes and filters look at them.
func changed(name string) bool {
	switch name {
	case "x-forwarded-for", "x-request-id", "x-forwarded-client-cert", "via", "connection", "te", "upgrade", "x-forwarded-host",
		"x-forwarded-port", "x-client-trace-id", "traceparent", "tracestate", "expect", "transfer-encoding":
		return true
	}
	return strings.HasPrefix(name, "x-envoy-")
}

// headerValue returns a header as Envoy matches it: all values, joined by commas.
func (w *walk) headerValue(name string) (value string, present, known bool) {
	h := w.http
	if h == nil {
		return "", false, true
	}
	switch name = way.Lower(name); name {
	case ":authority", "host":
		return h.authority, true, true
	case ":method":
		return h.method, true, true
	case ":path":
		return h.path, h.hasPath, true
	case ":scheme":
		return h.scheme, true, true
	}
	values, present := h.headers[name]
	return strings.Join(values, ","), present, !changed(name)
}

// grpc reports whether the request is gRPC.
func (w *walk) grpc() bool {
	value, _, _ := w.headerValue("content-type")
	return value == "application/grpc" || strings.HasPrefix(value, "application/grpc+")
}

// answer ends the way with an answer of the proxy itself.
func (w *walk) answer(status int, flag, details string) {
	o := way.Outcome{Kind: way.Answered, Status: status, Flag: flag, Details: details}
	if w.http != nil {
		o.GRPC = w.grpc()
		for _, m := range w.http.hcm.GetLocalReplyConfig().GetMappers() {
			flags := m.GetFilter().GetResponseFlagFilter().GetFlags()
			if m.GetStatusCode() != nil && (len(flags) == 0 || slices.Contains(flags, flag)) {
				w.Doubt("the listener may change the status of its own answers (local_reply_config)")
			}
		}
	}
	w.End(o)
}
