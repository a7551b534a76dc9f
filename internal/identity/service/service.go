package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/printable"
)

// Service signs certificates for those who call. All fields but Metrics are needed; they are not changed once it serves.
type Service struct {
	CA      *ca.CA
	Callers *authn.Gate
	Trust   identity.Trust // certificates are only for its own domain; callers known under an alias get their own domain's
	Limits  *authn.Limits
	Audit   *slog.Logger // one line for each decision
	Metrics *Metrics     // nil: nothing is counted
}

// byCertificate is authn's name for a proof by certificate.
const byCertificate = "certificate"

// impersonation is the field of a request's metadata with which Istio's node agents ask for certificates of other workloads.
const impersonation = "ImpersonatedIdentity"

// Limits for a caller before and while it is answered.
const (
	maxRequest = 64 << 10         // bytes of a request's message
	patience   = 10 * time.Second // for its message, and for the servers that check its credentials
)

// Register serves the certificate service. On the wire it follows the API, one message each way; here it is a stream, so that the caller is
// known before its message is read: for an ordinary call gRPC reads the message, up to the size that xDS needs, before the caller can be
// checked.
func (s *Service) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: security.IstioCertificateService_ServiceDesc.ServiceName,
		HandlerType: (*any)(nil),
		Metadata:    security.IstioCertificateService_ServiceDesc.Metadata,
		Streams:     []grpc.StreamDesc{{StreamName: "CreateCertificate", Handler: serve, ServerStreams: true, ClientStreams: true}},
	}, s)
}

// serve is a call of CreateCertificate: it answers a request with a certificate for the caller's own identity: the
// chain, leaf first, and as the last element everything to believe.
func serve(srv any, stream grpc.ServerStream) error {
	s, ok := srv.(*Service)
	if !ok {
		return status.Errorf(codes.Internal, "served by %T", srv)
	}
	d := decision{start: time.Now()}
	ctx, cancel := context.WithTimeout(stream.Context(), patience)
	defer cancel()
	out, err := s.decide(ctx, stream, &d)
	s.Metrics.decided(d, err)
	d.log(s.Audit, err)
	if err != nil {
		return err
	}
	return stream.SendMsg(&security.IstioCertificateResponse{CertChain: append(split(string(out.Chain)), string(out.Roots))})
}

// receive reads the request, and waits for it at most until ctx ends.
func receive(ctx context.Context, stream grpc.ServerStream) (*security.IstioCertificateRequest, error) {
	r, came := &security.IstioCertificateRequest{}, make(chan error, 1)
	go func() { came <- stream.RecvMsg(r) }() // the end of the stream ends it
	select {
	case err := <-came:
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, "the request cannot be read")
		}
	case <-ctx.Done():
		return nil, status.Errorf(codes.InvalidArgument, "no request came within %s", patience)
	}
	if n := proto.Size(r); n > maxRequest {
		return nil, status.Errorf(codes.InvalidArgument, "a request of %d bytes; at most %d are read", n, maxRequest)
	}
	return r, nil
}

// decision is the state of a request; it becomes a line of the audit log.
type decision struct {
	start  time.Time
	addr   netip.Addr
	caller authn.Caller
	step   step // where it was refused
	signed ca.Certificate
}

// step names what refused a request, for the metrics.
type step string

const (
	authentication step = "authentication"
	limits         step = "limits"
	idExtraction   step = "impersonation"
	parsing        step = "request"
	signing        step = "signing"
)

func (s *Service) decide(ctx context.Context, stream grpc.ServerStream, d *decision) (ca.Certificate, error) {
	shown := authn.FromContext(ctx)
	d.addr, d.step = shown.Addr, limits
	// Callers with a good certificate have only the limit of their identity: other callers at their address must not cause refusals.
	if _, ok := s.Callers.Certified(ctx, shown); !ok && !s.Limits.Address(shown.Addr) {
		return ca.Certificate{}, status.Errorf(codes.ResourceExhausted, "too many requests from %s; try again in a few seconds", shown.Addr)
	}
	d.step = authentication
	caller, err := s.Callers.Authenticate(ctx, shown)
	if err != nil {
		return ca.Certificate{}, Status(err)
	}
	d.caller, d.step = caller, idExtraction
	own, ok := s.Trust.Own(caller.ID)
	if !ok {
		return ca.Certificate{}, status.Errorf(codes.PermissionDenied, "%s is of another trust domain; this mesh is %s", caller.ID,
			s.Trust.Domain())
	}
	caller.ID = own
	d.caller, d.step = caller, limits
	if !s.Limits.Identity(caller.ID) {
		return ca.Certificate{}, status.Errorf(codes.ResourceExhausted, "too many requests by %s; try again in a few seconds", caller.ID)
	}
	d.step = parsing
	r, err := receive(ctx, stream)
	if err != nil {
		return ca.Certificate{}, err
	}
	d.step = idExtraction
	if other := r.GetMetadata().GetFields()[impersonation].GetStringValue(); other != "" && other != caller.ID.String() {
		return ca.Certificate{}, status.Errorf(
			codes.PermissionDenied,
			"%s asks for a certificate of %s: each workload gets only a certificate of its own identity, and no caller may ask for others",
			caller.ID,
			printable.Text(other, printable.Short),
		)
	}
	return s.sign(r, d)
}

func (s *Service) sign(r *security.IstioCertificateRequest, d *decision) (ca.Certificate, error) {
	d.step = parsing
	csr, err := ca.ParseRequest([]byte(r.GetCsr()))
	if err != nil {
		return ca.Certificate{}, status.Error(codes.InvalidArgument, printable.Text(err.Error(), printable.Long))
	}
	d.step = authentication
	if d.caller.Bind != nil {
		if err := d.caller.Bind(csr.PublicKey); err != nil {
			return ca.Certificate{}, Status(err)
		}
	}
	d.step = signing
	ttl, err := life(r.GetValidityDuration())
	if err != nil {
		return ca.Certificate{}, err
	}
	if d.caller.By == byCertificate {
		// more is for those who prove themselves anew: a stolen certificate must not lead to one of months
		ttl = min(ttl, s.CA.DefaultTTL())
	}
	d.signed, err = s.CA.Sign(csr, ca.Grant{ID: d.caller.ID, TTL: ttl})
	switch {
	case errors.Is(err, ca.ErrRequest):
		return ca.Certificate{}, status.Error(codes.InvalidArgument, printable.Text(err.Error(), printable.Long))
	case errors.Is(err, ca.ErrBarred):
		return ca.Certificate{}, status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		s.Audit.Error("a certificate is not signed", "identity", d.caller.ID.String(), "error", err)
		return ca.Certificate{}, status.Error(codes.Internal, "the authority cannot sign now; its log says why")
	}
	return d.signed, nil
}

// life reads seconds; a value that does not fit into a duration is more than any authority allows.
func life(seconds int64) (time.Duration, error) {
	const most = int64(100 * 365 * 24 * time.Hour / time.Second)
	if seconds < 0 || seconds > most {
		return 0, status.Errorf(codes.InvalidArgument, "validity_duration: %d seconds", seconds)
	}
	return time.Duration(seconds) * time.Second, nil
}

// Status turns an error of authn into a gRPC status that agents act on: Unauthenticated will fail again, Unavailable may not.
func Status(err error) error {
	switch {
	case errors.Is(err, authn.ErrTooMany):
		return status.Error(codes.ResourceExhausted, printable.Text(err.Error(), printable.Long))
	case errors.Is(err, authn.ErrUnavailable) && !errors.Is(err, authn.ErrRefused):
		return status.Error(codes.Unavailable, printable.Text(err.Error(), printable.Long))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unauthenticated, printable.Text(err.Error(), printable.Long))
}

// log writes the decision. The line names the caller, the place and the certificate, and no credentials.
func (d *decision) log(to *slog.Logger, err error) {
	fields := []slog.Attr{
		slog.String("address", text(d.addr)),
		slog.String("identity", d.caller.ID.String()),
		slog.String("by", d.caller.By),
	}
	took := slog.Float64("ms", float64(time.Since(d.start).Microseconds())/1000)
	if err != nil {
		st, _ := status.FromError(err)
		fields = append(fields, slog.String("step", string(d.step)), slog.String("code", st.Code().String()),
			slog.String("reason", st.Message()), took)
		to.LogAttrs(context.Background(), slog.LevelWarn, "certificate refused", fields...)
		return
	}
	leaf := d.signed.Leaf
	fields = append(fields, slog.String("serial", leaf.SerialNumber.Text(16)), slog.Time("ends", leaf.NotAfter), took)
	to.LogAttrs(context.Background(), slog.LevelInfo, "certificate issued", fields...)
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// split splits PEM blocks into one string each, as the response lists them.
func split(chain string) []string {
	const end = "-----END CERTIFICATE-----\n"
	var out []string
	for _, block := range strings.SplitAfter(chain, end) {
		if block != "" {
			out = append(out, block)
		}
	}
	return out
}

// NodeMismatch returns an error if a proxy claims an identity that its credentials do not prove. A node that names no service account is
// its namespace's.
func NodeMismatch(caller identity.ID, namespace, serviceAccount string) error {
	if caller.Namespace == namespace && (serviceAccount == "" || caller.ServiceAccount == serviceAccount) {
		return nil
	}
	said := namespace
	if serviceAccount != "" {
		said += "/" + serviceAccount
	}
	return status.Error(
		codes.PermissionDenied,
		fmt.Sprintf(
			"the node claims to be %s, but its credentials are those of %s: a proxy may only be itself; correct "+
				"POD_NAMESPACE and SERVICE_ACCOUNT, or its token",
			said,
			caller,
		),
	)
}
