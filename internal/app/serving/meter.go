package serving

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Meter counts the events of streams, as Istio's metrics.
type Meter struct{ Metrics *admin.Metrics }

var _ xds.Meter = Meter{}

// Sent implements xds.Meter.
func (m Meter) Sent(s xds.Sent) {
	m.Metrics.Sent(s.Type, s.Resources+s.Removed, s.Bytes, s.Took)
	m.Metrics.Queued(s.Waited)
}

// Acked implements xds.Meter.
func (m Meter) Acked(a xds.Acked) {
	if a.Took > 0 {
		m.Metrics.Converged(a.Took)
	}
}

// Nacked implements xds.Meter.
func (m Meter) Nacked(_ library.ProxyID, typ string) { m.Metrics.Rejected(typ) }

// cut sees how streams end and counts those that the server ended because the proxy did not read. A deadline of the
// proxy's own ends its context too.
func (m Meter) cut(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(srv, stream)
	if status.Code(err) == codes.DeadlineExceeded && stream.Context().Err() == nil {
		m.Metrics.WriteTimeout()
	}
	return err
}
