package delegate

import (
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/mesh"
)

// conflict is a match of a delegate that is not within any of its root's: nothing comes of it.
type conflict struct {
	match int    // of the delegate's route
	field string // of the match, that excludes each of the root's matches; that of the last one
}

// join merges a delegate's route into its root's: the delegate's settings, with the root's as the fallback. It returns nil if no match is
// left.
func join(root, leaf *networking.HTTPRoute, namespace, domain string) (joined *networking.HTTPRoute, conflicts []conflict) {
	joined = proto.CloneOf(leaf)
	joined.Name = joinNames(root.GetName(), leaf.GetName())
	joined.Match, conflicts = matches(root.GetMatch(), leaf.GetMatch(), namespace)
	if len(joined.Match) == 0 && len(root.GetMatch())+len(leaf.GetMatch()) > 0 {
		return nil, conflicts
	}
	inherit(joined, root)
	for _, d := range joined.GetRoute() {
		d.Destination = qualified(d.GetDestination(), namespace, domain)
	}
	if leaf.GetMirror() != nil {
		joined.Mirror = qualified(joined.GetMirror(), namespace, domain)
	}
	if len(leaf.GetMirrors()) > 0 {
		for _, m := range joined.GetMirrors() {
			m.Destination = qualified(m.GetDestination(), namespace, domain)
		}
	}
	return joined, conflicts
}

// matches joins each match of a root's route with each of a delegate's: what a request must be for both.
func matches(roots, leaves []*networking.HTTPMatchRequest, namespace string) (out []*networking.HTTPMatchRequest, conflicts []conflict) {
	if len(leaves) == 0 {
		return roots, nil
	}
	if len(roots) == 0 {
		roots = []*networking.HTTPMatchRequest{{}}
	}
	why := make([]string, len(leaves))
	none := make([]bool, len(leaves))
	for i := range none {
		none[i] = true
	}
	for _, root := range roots { // in the root's order, as its author wants requests to be looked at
		for i, leaf := range leaves {
			m, field := within(root, leaf, namespace)
			if field != "" {
				why[i] = field
				continue
			}
			none[i] = false
			out = append(out, m)
		}
	}
	for i := range leaves {
		if none[i] {
			conflicts = append(conflicts, conflict{i, why[i]})
		}
	}
	return out, conflicts
}

// inherit copies to a delegate's route what its root's route says of the same requests.
func inherit(to, root *networking.HTTPRoute) {
	if to.Rewrite == nil {
		to.Rewrite = root.GetRewrite()
	}
	if to.Timeout == nil {
		to.Timeout = root.GetTimeout()
	}
	if to.Retries == nil {
		to.Retries = root.GetRetries()
	}
	if to.Fault == nil {
		to.Fault = root.GetFault()
	}
	if to.CorsPolicy == nil {
		to.CorsPolicy = root.GetCorsPolicy()
	}
	if to.Headers == nil {
		to.Headers = root.GetHeaders()
	}
	if to.Mirror == nil && len(to.Mirrors) == 0 {
		to.Mirror, to.Mirrors, to.MirrorPercentage = root.GetMirror(), root.GetMirrors(), root.GetMirrorPercentage()
		to.MirrorPercent = root.GetMirrorPercent() //nolint:staticcheck // users' rules still have the older field
	}
}

// qualified returns a destination with its full host: a delegate's short names are of its own namespace.
func qualified(d *networking.Destination, namespace, domain string) *networking.Destination {
	out := proto.CloneOf(d)
	if out.GetHost() != "" {
		out.Host = string(mesh.FullHost(out.GetHost(), namespace, domain))
	}
	return out
}
