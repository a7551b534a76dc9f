package route

import (
	"math"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// The names under which HTTP connection managers list the filters that routes configure.
const (
	FaultFilter = "envoy.filters.http.fault"
	CORSFilter  = "envoy.filters.http.cors"
)

// filters configures, for one route, the filters that listeners hold with no configuration of their own.
func (b *Builder) filters(r *routev3.Route, field string, in *networking.HTTPRoute) {
	if f := b.fault(field+".fault", in.GetFault()); f != nil {
		perRoute(r, FaultFilter, f)
	}
	if c := b.cors(field+".corsPolicy", in.GetCorsPolicy()); c != nil {
		perRoute(r, CORSFilter, c)
	}
}

func perRoute(r *routev3.Route, name string, m proto.Message) {
	if r.TypedPerFilterConfig == nil {
		r.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	r.TypedPerFilterConfig[name] = envoy.Any(m)
}

// fault translates HTTPFaultInjection; nil: it injects nothing.
func (b *Builder) fault(field string, in *networking.HTTPFaultInjection) *faultv3.HTTPFault {
	out := &faultv3.HTTPFault{Delay: b.delay(field+".delay", in.GetDelay()), Abort: b.abort(field+".abort", in.GetAbort())}
	if out.Delay == nil && out.Abort == nil {
		return nil
	}
	return out
}

func (b *Builder) delay(field string, in *networking.HTTPFaultInjection_Delay) *commonfaultv3.FaultDelay {
	if in == nil {
		return nil
	}
	percent := in.GetPercentage().GetValue()
	//nolint:staticcheck // percent is deprecated, and users have it
	if old := in.GetPercent(); in.GetPercentage() == nil && old > 0 {
		percent = float64(old)
	}
	fraction := fraction(percent)
	if fraction.GetNumerator() == 0 {
		return nil
	}
	if d := in.GetFixedDelay(); d != nil && d.AsDuration() >= time.Millisecond {
		return &commonfaultv3.FaultDelay{FaultDelaySecifier: &commonfaultv3.FaultDelay_FixedDelay{FixedDelay: d}, Percentage: fraction}
	}
	b.problem(mesh.Error, code.BadDelay, field, "there is no fixedDelay of at least 1ms: requests are not delayed", "set fixedDelay")
	return nil
}

func (b *Builder) abort(field string, in *networking.HTTPFaultInjection_Abort) *faultv3.FaultAbort {
	if in == nil {
		return nil
	}
	out := &faultv3.FaultAbort{Percentage: fraction(in.GetPercentage().GetValue())}
	if out.Percentage.GetNumerator() == 0 {
		return nil
	}
	switch t := in.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		if t.HttpStatus < 200 || t.HttpStatus > 599 {
			return nil // config reports it
		}
		out.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: uint32(t.HttpStatus)}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		status, ok := grpcCode(t.GrpcStatus)
		if !ok {
			b.problem(mesh.Error, code.BadStatus, field+".grpcStatus",
				quote(t.GrpcStatus)+" is not a gRPC status: requests are not aborted", "use a name like UNAVAILABLE")
			return nil
		}
		out.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: uint32(status)}
	default:
		b.problem(mesh.Error, code.BadAbort, field, "there is no status to answer with: requests are not aborted",
			"set httpStatus or grpcStatus")
		return nil
	}
	return out
}

// grpcCode parses the name of a gRPC status (HTTPFaultInjection.Abort.grpc_status).
func grpcCode(name string) (codes.Code, bool) {
	var c codes.Code
	if _, err := strconv.Atoi(name); err == nil {
		return c, false
	}
	err := c.UnmarshalJSON([]byte(strconv.Quote(name)))
	return c, err == nil
}

// cors translates CorsPolicy.
func (b *Builder) cors(field string, in *networking.CorsPolicy) *corsv3.CorsPolicy {
	if in == nil {
		return nil
	}
	out := &corsv3.CorsPolicy{
		AllowOriginStringMatch: b.origins(field, in),
		AllowMethods:           strings.Join(in.GetAllowMethods(), ","),
		AllowHeaders:           strings.Join(in.GetAllowHeaders(), ","),
		ExposeHeaders:          strings.Join(in.GetExposeHeaders(), ","),
		AllowCredentials:       in.GetAllowCredentials(),
	}
	if in.GetMaxAge() != nil {
		out.MaxAge = strconv.FormatInt(int64(in.GetMaxAge().AsDuration()/time.Second), 10)
	}
	switch in.GetUnmatchedPreflights() {
	case networking.CorsPolicy_FORWARD:
		out.ForwardNotMatchingPreflights = wrapperspb.Bool(true)
	case networking.CorsPolicy_IGNORE:
		out.ForwardNotMatchingPreflights = wrapperspb.Bool(false)
	}
	return out
}

// origins translates allowOrigins and its older form; there, "*" means every origin.
func (b *Builder) origins(field string, in *networking.CorsPolicy) []*matcherv3.StringMatcher {
	anyOrigin := func() *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexMatcher(".*")}}
	}
	var out []*matcherv3.StringMatcher
	for i, o := range in.GetAllowOrigins() {
		m, ok := b.stringMatcher(index(field+".allowOrigins", i), o)
		switch {
		case !ok:
		case m == nil:
			out = append(out, anyOrigin())
		default:
			out = append(out, m)
		}
	}
	//nolint:staticcheck // allow_origin is deprecated, and users have it
	for _, o := range in.GetAllowOrigin() {
		if o == "*" {
			out = append(out, anyOrigin())
			continue
		}
		out = append(out, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: o}})
	}
	return out
}

// fraction returns a percentage with four decimal places, the most that Envoy supports.
func fraction(percent float64) *typev3.FractionalPercent {
	n := math.Round(min(max(percent, 0), 100) * 10000)
	if math.IsNaN(n) {
		n = 0
	}
	return &typev3.FractionalPercent{Numerator: uint32(n), Denominator: typev3.FractionalPercent_MILLION}
}

// runtime wraps a fraction for fields that Envoy's runtime may override. There is no key, so it never does.
func runtime(f *typev3.FractionalPercent) *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{DefaultValue: f}
}
