package delegate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/input"
	"fairway/internal/envoy/route"
)

// within joins a root's match with a match of its delegate: the result takes the requests that both take. If the delegate's match is not
// within the root's, it returns the field that shows this. namespace is the delegate's, which short names of gateways mean.
func within(root, leaf *networking.HTTPMatchRequest, namespace string) (m *networking.HTTPMatchRequest, field string) {
	m = proto.CloneOf(leaf)
	m.Name = joinNames(root.GetName(), leaf.GetName())
	m.StatPrefix = cmp.Or(leaf.GetStatPrefix(), root.GetStatPrefix())
	m.IgnoreUriCase = root.GetIgnoreUriCase() || leaf.GetIgnoreUriCase()
	for _, one := range []struct {
		name       string
		root, leaf *networking.StringMatch
		to         **networking.StringMatch
	}{
		{"uri", root.GetUri(), leaf.GetUri(), &m.Uri},
		{"scheme", root.GetScheme(), leaf.GetScheme(), &m.Scheme},
		{"method", root.GetMethod(), leaf.GetMethod(), &m.Method},
		{"authority", root.GetAuthority(), leaf.GetAuthority(), &m.Authority},
	} {
		if one.leaf == nil {
			*one.to = one.root
		} else if one.root != nil && !narrower(one.leaf, one.root) {
			return nil, one.name
		}
	}
	for _, one := range []struct {
		name       string
		root, leaf map[string]*networking.StringMatch
		to         *map[string]*networking.StringMatch
		narrower   func(leaf, root *networking.StringMatch) bool
	}{
		{"headers", root.GetHeaders(), leaf.GetHeaders(), &m.Headers, narrower},
		{"queryParams", root.GetQueryParams(), leaf.GetQueryParams(), &m.QueryParams, narrower},
		// These matches exclude requests: the delegate must exclude at least as much as the root.
		{"withoutHeaders", root.GetWithoutHeaders(), leaf.GetWithoutHeaders(), &m.WithoutHeaders,
			func(leaf, root *networking.StringMatch) bool { return narrower(root, leaf) }},
	} {
		joined, key := joinMaps(one.root, one.leaf, one.narrower)
		if key != "" {
			return nil, one.name + "[" + key + "]"
		}
		*one.to = joined
	}
	labels, key := joinMaps(root.GetSourceLabels(), leaf.GetSourceLabels(), func(a, b string) bool { return a == b })
	switch {
	case key != "":
		return nil, "sourceLabels[" + key + "]"
	case differ(root.GetPort(), leaf.GetPort()):
		return nil, "port"
	case differ(root.GetSourceNamespace(), leaf.GetSourceNamespace()):
		return nil, "sourceNamespace"
	}
	m.SourceLabels = labels
	m.Port = cmp.Or(leaf.GetPort(), root.GetPort())
	m.SourceNamespace = cmp.Or(leaf.GetSourceNamespace(), root.GetSourceNamespace())
	return m, gateways(m, root, leaf, namespace)
}

// gateways joins the lists of gateways: the delegate's, which must be among the root's where both have one.
func gateways(m, root, leaf *networking.HTTPMatchRequest, namespace string) (field string) {
	m.Gateways = nil
	if len(leaf.GetGateways()) > 0 {
		m.Gateways = route.Gateways(route.Rule{
			Namespace: namespace, Spec: &networking.VirtualService{Gateways: leaf.GetGateways()},
		})
	}
	if len(root.GetGateways()) == 0 {
		return ""
	}
	if m.Gateways == nil {
		m.Gateways = root.GetGateways()
		return ""
	}
	for _, g := range m.Gateways {
		if !slices.Contains(root.GetGateways(), g) {
			return "gateways"
		}
	}
	return ""
}

// differ reports whether two conditions exclude each other. A zero condition excludes nothing.
func differ[T comparable](a, b T) bool {
	var none T
	return a != none && b != none && a != b
}

// joinMaps unites two maps. If the delegate's value is not within the root's for some key, it returns that key.
func joinMaps[V any](root, leaf map[string]V, narrower func(leaf, root V) bool) (joined map[string]V, key string) {
	if len(root) == 0 {
		return leaf, ""
	}
	joined = maps.Clone(root)
	for _, k := range slices.Sorted(maps.Keys(leaf)) {
		if of, both := root[k]; both && !narrower(leaf[k], of) {
			return nil, k
		}
		joined[k] = leaf[k]
	}
	return joined, ""
}

// narrower reports whether root takes all that leaf takes. Regular expressions cannot be compared, so one is accepted only if the other
// side has no match for the field (notes on conflicts at HTTPMatchRequest in virtual_service.proto).
func narrower(leaf, root *networking.StringMatch) bool {
	switch {
	case present(root):
		return true
	case present(leaf), root.GetRegex() != "", leaf.GetRegex() != "":
		return false
	case root.GetExact() != "":
		return leaf.GetExact() == root.GetExact()
	}
	return strings.HasPrefix(leaf.GetExact()+leaf.GetPrefix(), root.GetPrefix())
}

// present reports whether a match only asks that the value is present.
func present(m *networking.StringMatch) bool {
	return m.GetExact() == "" && m.GetPrefix() == "" && m.GetRegex() == ""
}

// joinNames joins names of a root's part and a delegate's.
func joinNames(root, leaf string) string {
	if root == "" || leaf == "" {
		return root + leaf
	}
	return root + "-" + leaf
}

var _ input.Maker = Make
