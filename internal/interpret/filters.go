package interpret

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	h2mv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/interpret/way"
)

// filterConfig is an HTTP filter with its configuration, and the one that the route gives it.
type filterConfig struct {
	part     string
	name     string
	config   *anypb.Any
	perRoute *anypb.Any
}

// Prefix of the types of HTTP filters.
const filterTypes = "envoy.extensions.filters.http."

// harmless are HTTP filters that neither answer requests nor change what routes and rules match.
var harmless = map[string]bool{
	"grpc_stats.v3.FilterConfig": true, "set_filter_state.v3.Config": true, "compressor.v3.Compressor": true,
	"decompressor.v3.Decompressor": true, "upstream_codec.v3.UpstreamCodec": true, "on_demand.v3.OnDemand": true,
	"cdn_loop.v3.CdnLoopConfig": true, "original_src.v3.OriginalSrc": true, "tap.v3.Tap": true,
}

// httpFilters follows the request through the HTTP filters.
func (w *walk) httpFilters() {
	for i, f := range w.http.hcm.GetHttpFilters() {
		w.Spend(1)
		part := fmt.Sprintf("http_filters[%d] %s", i, way.Quote(f.GetName()))
		c := filterConfig{part: part, name: f.GetName(), config: f.GetTypedConfig()}
		disabled := f.GetDisabled()
		if c.perRoute = w.perRoute(f.GetName()); c.perRoute != nil {
			disabled = false
			var wrapped routev3.FilterConfig
			if way.Unpack(w.Resource, c.perRoute, &wrapped) {
				c.perRoute, disabled = wrapped.GetConfig(), wrapped.GetDisabled()
			}
		}
		if f.GetConfigDiscovery() != nil {
			w.Doubt("the configuration of %s is a resource that the interpreter does not have", c.part)
			continue
		}
		if disabled {
			continue
		}
		w.httpFilter(c)
		if w.http.reroute {
			w.Step("route", w.Resource, "", "%s has the route chosen again", c.part)
			w.pickRoute()
		}
	}
	w.CannotSay("the connection manager has no router filter, or it is one that is not interpreted")
}

// perRoute returns the most specific configuration of a filter that the chosen route gives it.
func (w *walk) perRoute(name string) *anypb.Any {
	h := w.http
	if a := h.weight.GetTypedPerFilterConfig()[name]; a != nil {
		return a
	}
	if a := h.route.GetTypedPerFilterConfig()[name]; a != nil {
		return a
	}
	if a := h.host.GetTypedPerFilterConfig()[name]; a != nil {
		return a
	}
	if h.route != nil {
		return h.routes.GetTypedPerFilterConfig()[name]
	}
	return nil
}

// httpFilter follows the request through one filter.
func (w *walk) httpFilter(f filterConfig) {
	kind, ours := strings.CutPrefix(way.TypeName(f.config), filterTypes)
	switch {
	case ours && kind == "router.v3.Router":
		w.act()
	case ours && harmless[kind]:
	case ours && kind == "rbac.v3.RBAC":
		w.httpRBAC(f)
	case ours && kind == "jwt_authn.v3.JwtAuthentication":
		w.jwt(f)
	case ours && kind == "fault.v3.HTTPFault":
		w.fault(f)
	case ours && kind == "cors.v3.Cors":
		w.cors(f)
	case ours && kind == "ext_authz.v3.ExtAuthz":
		w.extAuthz(f)
	case ours && kind == "filter_chain.v3.FilterChainConfig":
		w.filterChain(f)
	case ours && kind == "stateful_session.v3.StatefulSession":
		w.Doubt("%s may choose the endpoint, by the request's cookie or header", f.part)
	case ours && kind == "header_to_metadata.v3.Config":
		w.headerToMetadata(f)
	case ours && (kind == "local_ratelimit.v3.LocalRateLimit" || kind == "ratelimit.v3.RateLimit"):
		if !w.Assume(f.part + " does not limit the request's rate") {
			w.Step("rate limit", w.Resource, f.part, "the limit is exceeded")
			w.answer(429, "RL", "request_rate_limited")
		}
	case ours && kind == "grpc_web.v3.GrpcWeb":
		if value, _, _ := w.headerValue("content-type"); strings.HasPrefix(value, "application/grpc-web") {
			w.Doubt("%s translates the request to gRPC", f.part)
		}
	default:
		what := way.TypeName(f.config)
		if what == "" {
			what = f.name
		}
		w.Step("filter", w.Resource, f.part, "it is not interpreted: it may change the request, or answer it")
		w.Doubt("%s (%s) may change the request, or answer it", f.part, way.Quote(what))
	}
}

// filterChain follows the request through the filters that its route has of its own.
func (w *walk) filterChain(f filterConfig) {
	var m filterchainv3.FilterChainConfig
	var own filterchainv3.FilterChainConfigPerRoute
	way.Unpack(w.Resource, f.config, &m)
	all := m.GetDefaultFilterChain().GetFilters()
	if f.perRoute != nil && way.Unpack(w.Resource, f.perRoute, &own) {
		all = own.GetFilterChain().GetFilters()
	}
	for i, inner := range all {
		w.Spend(1)
		w.httpFilter(filterConfig{
			part: fmt.Sprintf("%s filters[%d] %s", f.part, i, way.Quote(inner.GetName())),
			name: inner.GetName(), config: inner.GetTypedConfig(),
		})
	}
}

// extAuthz asks an authorizer, which the interpreter cannot do.
func (w *walk) extAuthz(f filterConfig) {
	var m extauthzv3.ExtAuthz
	var own extauthzv3.ExtAuthzPerRoute
	if f.perRoute != nil && way.Unpack(w.Resource, f.perRoute, &own) && own.GetDisabled() {
		return
	}
	way.Unpack(w.Resource, f.config, &m)
	if m.GetFilterEnabledMetadata() != nil {
		is := w.metadata(m.GetFilterEnabledMetadata())
		if !w.Decide(is, f.part+" is asked: metadata matches") {
			w.Step("authorization", w.Resource, f.part, "the authorizer is not asked: no custom policy matches")
			return
		}
	}
	if p := m.GetFilterEnabled(); p != nil && !w.Happens(w.chance(p.GetDefaultValue(), p.GetRuntimeKey())) {
		return
	}
	if !w.Assume("the external authorizer of " + f.part + " allows the request") {
		w.Step("authorization", w.Resource, f.part, "the authorizer denies the request")
		w.CannotSay("the external authorizer chooses the status of its answer (403 by default)")
	}
	w.Doubt("the external authorizer of %s may change the request's headers", f.part)
	w.Step("authorization", w.Resource, f.part, "the authorizer allows the request")
}

// headerToMetadata applies the common form of the filter's rules: a header becomes metadata.
func (w *walk) headerToMetadata(f filterConfig) {
	var m h2mv3.Config
	if f.perRoute == nil || !way.Unpack(w.Resource, f.perRoute, &m) {
		way.Unpack(w.Resource, f.config, &m)
	}
	for _, r := range m.GetRequestRules() {
		name := way.Lower(r.GetHeader())
		value, present, _ := w.headerValue(name)
		set := r.GetOnHeaderPresent()
		switch {
		case present && set != nil && set.GetRegexValueRewrite() == nil && set.GetEncode() == 0:
			if set.GetValue() != "" {
				value = set.GetValue()
			}
			w.setMetadata(set.GetMetadataNamespace(), map[string]any{set.GetKey(): value})
		case present && set != nil:
			// Rules rarely match it. Its rewritten value is not interpreted.
			w.Doubt("%s rewrites header %s into metadata", f.part, way.Quote(name))
		}
		if present && r.GetRemove() {
			delete(w.http.headers, name)
		}
	}
}

// fault delays or aborts the request.
func (w *walk) fault(f filterConfig) {
	var m faultv3.HTTPFault
	if f.perRoute == nil || !way.Unpack(w.Resource, f.perRoute, &m) {
		m = faultv3.HTTPFault{}
		way.Unpack(w.Resource, f.config, &m)
	}
	if m.GetDelay() == nil && m.GetAbort() == nil {
		return
	}
	if m.GetUpstreamCluster() != "" && m.GetUpstreamCluster() != w.http.cluster {
		return
	}
	is := way.All(len(m.GetHeaders()), func(i int) way.Tri { return w.header(m.GetHeaders()[i]) })
	if len(m.GetDownstreamNodes()) > 0 {
		is = way.Unsure
	}
	if !w.Decide(is, f.part+" applies to the request") {
		return
	}
	if m.GetMaxActiveFaults() != nil {
		w.Doubt("%s makes at most %d faults at once", f.part, m.GetMaxActiveFaults().GetValue())
	}
	if d := m.GetDelay(); d != nil {
		if d.GetHeaderDelay() != nil {
			w.Doubt("%s delays by what headers say", f.part)
		} else if chance := w.chance(d.GetPercentage(), m.GetDelayPercentRuntime()); chance > 0 {
			w.Step("fault", w.Resource, f.part, "%.4g%% of requests are delayed by %s", 100*chance, d.GetFixedDelay().AsDuration())
		}
	}
	a := m.GetAbort()
	if a == nil {
		return
	}
	if a.GetHeaderAbort() != nil {
		if _, asked := w.http.headers["x-envoy-fault-abort-request"]; asked {
			w.Doubt("%s aborts by what headers say", f.part)
		}
		return
	}
	chance := w.chance(a.GetPercentage(), m.GetAbortPercentRuntime())
	if !w.Happens(chance) {
		return
	}
	status := int(a.GetHttpStatus())
	if _, ok := a.GetErrorType().(*faultv3.FaultAbort_GrpcStatus); ok {
		status = 200 // Envoy reports the fault in the header grpc-status alone, also to clients that do not speak gRPC
		w.Step("fault", w.Resource, f.part, "%.4g%% of requests are aborted with gRPC status %d", 100*chance, a.GetGrpcStatus())
	} else {
		w.Step("fault", w.Resource, f.part, "%.4g%% of requests are aborted with status %d", 100*chance, status)
	}
	w.answer(status, "FI", "fault_filter_abort")
}

// cors answers preflight requests.
func (w *walk) cors(f filterConfig) {
	var p corsv3.CorsPolicy
	if f.perRoute == nil || !way.Unpack(w.Resource, f.perRoute, &p) {
		return
	}
	origin, hasOrigin, _ := w.headerValue("origin")
	if _, asks, _ := w.headerValue("access-control-request-method"); !hasOrigin || !asks || w.http.method != "OPTIONS" {
		return
	}
	if e := p.GetFilterEnabled(); e != nil && !w.Happens(w.chance(e.GetDefaultValue(), e.GetRuntimeKey())) {
		return
	}
	is := way.Any(len(p.GetAllowOriginStringMatch()), func(i int) way.Tri { return w.Text(p.GetAllowOriginStringMatch()[i], origin) })
	allowed := w.Decide(is, "CORS allows the origin")
	if !allowed && (p.GetForwardNotMatchingPreflights() == nil || p.GetForwardNotMatchingPreflights().GetValue()) {
		w.Step("CORS", w.Resource, f.part, "origin %s is not allowed; the preflight request goes on", way.Quote(origin))
		return
	}
	w.Step("CORS", w.Resource, f.part, "a preflight request is answered; origin %s allowed: %t", way.Quote(origin), allowed)
	w.answer(200, "", "cors_response")
}
