package route

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/route/format"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// operations is a Headers message in Envoy's terms. Setting host rewrites the request's authority, which is a separate option in Envoy.
type operations struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	authority                     string
}

func (b *Builder) operations(field string, h *networking.Headers) operations {
	var o operations
	if h == nil {
		return o
	}
	o.requestAdd, o.requestRemove = b.operation(field+".request", h.GetRequest(), &o.authority)
	o.responseAdd, o.responseRemove = b.operation(field+".response", h.GetResponse(), nil)
	return o
}

// operation translates one HeaderOperations; authority, if not nil, takes the value that host is set to.
func (b *Builder) operation(
	field string,
	in *networking.Headers_HeaderOperations,
	authority *string,
) ([]*corev3.HeaderValueOption, []string) {
	var out []*corev3.HeaderValueOption
	for _, k := range slices.Sorted(maps.Keys(in.GetSet())) {
		if v := in.GetSet()[k]; authority != nil && isAuthority(k) && format.Valid(v) && v != "" {
			*authority = v
			continue
		}
		out = b.option(out, field+".set", k, in.GetSet()[k], corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	}
	for _, k := range slices.Sorted(maps.Keys(in.GetAdd())) {
		out = b.option(out, field+".add", k, in.GetAdd()[k], corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	}
	var remove []string
	for i, k := range in.GetRemove() {
		if !changeableHeader(k) {
			b.problem(mesh.Error, code.BadHeaderName, index(field+".remove", i), quote(k)+" cannot be removed", "")
			continue
		}
		remove = append(remove, k)
	}
	return out, remove
}

func (b *Builder) option(
	out []*corev3.HeaderValueOption,
	field, key, value string,
	action corev3.HeaderValueOption_HeaderAppendAction,
) []*corev3.HeaderValueOption {
	switch {
	case !changeableHeader(key) || len(key) > 16384:
		b.problem(mesh.Error, code.BadHeaderName, field+"."+key, quote(key)+" is not a header that can be changed", "")
		return out
	case !format.Valid(value) && format.Withheld(value) != "":
		b.problem(
			mesh.Error,
			code.WithheldCommand,
			field+"."+key,
			"%"+format.Withheld(
				value,
			)+"% cannot be sent by rules: its value belongs to the client's proxy; the header is left out",
			"write the text to send, or a command about the request, such as %REQ(x-id)%; %% is a percent sign",
		)
		return out
	case !format.Valid(value):
		b.problem(mesh.Error, code.BadHeaderValue, field+"."+key,
			quote(printable.Text(value, printable.Short))+" is not a header's value",
			"write %% for a percent sign; %COMMAND% only as Envoy's access log format has it")
		return out
	}
	return append(out, &corev3.HeaderValueOption{
		Header:         &corev3.HeaderValue{Key: key, Value: value},
		AppendAction:   action,
		KeepEmptyValue: value == "",
	})
}

// changeableHeader reports whether Envoy lets a route change the header: not HTTP's own fields, nor host.
func changeableHeader(name string) bool { return token(name) && !isAuthority(name) }

func isAuthority(name string) bool {
	return strings.EqualFold(name, "host") || strings.EqualFold(name, ":authority")
}

// routeHeaders puts a Headers message on a route.
func (b *Builder) routeHeaders(r *routev3.Route, field string, h *networking.Headers) {
	o := b.operations(field, h)
	r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, o.requestAdd...)
	r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, o.requestRemove...)
	r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, o.responseAdd...)
	r.ResponseHeadersToRemove = append(r.ResponseHeadersToRemove, o.responseRemove...)
	if action := r.GetRoute(); o.authority != "" && action != nil {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: o.authority}
	}
}

// weightHeaders puts a destination's Headers on its share of a weighted route.
func (b *Builder) weightHeaders(w *routev3.WeightedCluster_ClusterWeight, field string, h *networking.Headers) {
	o := b.operations(field, h)
	w.RequestHeadersToAdd, w.RequestHeadersToRemove = o.requestAdd, o.requestRemove
	w.ResponseHeadersToAdd, w.ResponseHeadersToRemove = o.responseAdd, o.responseRemove
	if o.authority != "" {
		w.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: o.authority}
	}
}
