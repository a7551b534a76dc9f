package route

import (
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	users "fairway/internal/config"
	"fairway/internal/envoy/picker"
	"fairway/internal/mesh"
)

// extend adds to a route what the object that it was made of says, and no field of a VirtualService (config.MadeRoute).
func extend(r *routev3.Route, more users.MadeRoute) {
	if more.Prefix != nil {
		replacePrefix(r, *more.Prefix)
	}
	if more.Upto > 0 { // Envoy compares one random number of a request with the shares of all routes
		r.Match.RuntimeFraction = &corev3.RuntimeFractionalPercent{
			DefaultValue: &typev3.FractionalPercent{Numerator: more.Upto, Denominator: typev3.FractionalPercent_MILLION},
		}
	}
	action := r.GetRoute()
	if action == nil {
		return
	}
	if more.Picker != (mesh.Picker{}) {
		picker.OnRoute(r, more.Picker)
	}
	if more.Missing == 500 {
		action.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
	}
	if d := more.TryTimeout; d > 0 {
		if action.RetryPolicy != nil {
			action.RetryPolicy.PerTryTimeout = durationpb.New(d)
		} else if whole := action.Timeout.AsDuration(); whole == 0 || d < whole {
			action.Timeout = durationpb.New(d) // there is one try
		}
	}
}

// replacePrefix has another prefix take the place of the one that a route matches, as whole path elements: with /a for /b, /b/c becomes
// /a/c. Without a prefix, the route matches all paths, as with "/".
func replacePrefix(r *routev3.Route, to string) {
	of, to := r.GetMatch().GetPathSeparatedPrefix(), strings.TrimRight(to, "/")
	var by *matcherv3.RegexMatchAndSubstitute
	if of == "" || to == "" { // one of the two is the root, whose slash the rest of the path begins with
		by = &matcherv3.RegexMatchAndSubstitute{
			Pattern: regexMatcher("^" + regexp.QuoteMeta(of) + "/*"), Substitution: strings.ReplaceAll(to, `\`, `\\`) + "/",
		}
	}
	switch {
	case r.GetRedirect() != nil && by != nil:
		r.GetRedirect().PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: by}
	case r.GetRedirect() != nil:
		r.GetRedirect().PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: to}
	case r.GetRoute() != nil && by != nil:
		r.GetRoute().RegexRewrite = by
	case r.GetRoute() != nil:
		r.GetRoute().PrefixRewrite = to
	}
}
