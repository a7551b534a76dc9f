package secure

import (
	"context"

	"fairway/internal/app/sharing"
	"fairway/internal/envoy"
	"fairway/internal/identity"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Bundles is the input of the roots that agents are sent.
type Bundles = *table.Input[mesh.ResourceKey, *envoy.Encoded]

// bundleKey returns the key of the only bundle of roots, on the shelf that every proxy sees.
func bundleKey() mesh.ResourceKey {
	return mesh.ResourceKey{Shelf: mesh.Shelf{Layer: mesh.Public}, Name: identity.BundleName}
}

// bundle is the authority's roots and CRLs as agents take them.
func (s *Server) bundle() *envoy.Encoded {
	return envoy.Sealed(identity.EncodeBundle(s.ca.Roots()))
}

// PublishRoots stages the roots of the mesh at once, before the first client is served. So an agent that reconnects with the same
// roots is sent nothing. problems take why the state that control planes share is away.
func (s *Server) PublishRoots(in Bundles, problems sharing.Problems) {
	if s == nil || s.ca == nil {
		return
	}
	s.problems = problems
	sharing.Report(s.shared, problems)
	s.publishRoots(in)
}

// publishRoots stages the roots, or has a problem say why they are not known.
func (s *Server) publishRoots(in Bundles) {
	unknown := s.ca.Unknown()
	if s.shared != nil {
		sharing.ReportRoot(unknown, s.problems)
	}
	if unknown == nil {
		in.Set(bundleKey(), s.bundle())
	}
}

// followRoots publishes the roots again whenever roots or CRLs change, and ends streams that are no longer trusted, until ctx ends.
func (s *Server) followRoots(ctx context.Context, in Bundles) error {
	for {
		changed := s.ca.Changed()
		s.publishRoots(in)
		s.leases.Check(ctx, s.callers)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
