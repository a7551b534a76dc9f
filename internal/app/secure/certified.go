package secure

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/service"
)

// byAnother is the method of a caller with a certificate of another authority than the mesh's.
const byAnother = "certificate of another authority"

// Certified asks knows whether the caller of a stream may do what the stream does, and under which name. knows decides by the
// identity that a certificate of the mesh proves (the zero ID: there is none), or by the certificates as they were presented.
// Tokens are ignored, so no other server is asked, and failures of other callers at the same address are not a reason to refuse. nil:
// the stream may go on for as long as the certificate is valid. An error is a gRPC status.
func (s *Server) Certified(ctx context.Context, knows func(id identity.ID, shown []*x509.Certificate) (as string, may bool)) error {
	before, shown := s.roots(), authn.FromContext(ctx)
	shown.Token = ""
	caller, err := s.callers.Authenticate(ctx, shown)
	switch as, may := knows(caller.ID, shown.Certificates); {
	case may:
		if err != nil {
			caller = authn.Caller{By: byAnother, Until: shown.Certificates[0].NotAfter}
		}
		s.grant(ctx, caller, as, before)
		return nil
	case err == nil:
		return status.Errorf(codes.PermissionDenied, "%s may not do that here", caller.ID)
	}
	if len(shown.Certificates) == 0 {
		return status.Error(codes.PermissionDenied, "show a certificate of somebody who may do that here")
	}
	return service.Status(err) // the connection is closed then: the next one may show another certificate
}
