package app

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// meter counts what streams do as Istio's metrics.
type meter struct{ metrics *admin.Metrics }

var _ xds.Meter = meter{}

func (m meter) Sent(s xds.Sent) {
	m.metrics.Sent(s.Type, s.Resources+s.Removed, s.Bytes, s.Took)
}

func (m meter) Acked(a xds.Acked) {
	if a.Took > 0 {
		m.metrics.Converged(a.Took)
	}
}

func (m meter) Nacked(_ library.ProxyID, typ string) { m.metrics.Rejected(typ) }

// cut sees how streams end and counts those that the server ended because the proxy did not read. A deadline of the
// proxy's own ends its context too.
func (m meter) cut(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(srv, stream)
	if status.Code(err) == codes.DeadlineExceeded && stream.Context().Err() == nil {
		m.metrics.WriteTimeout()
	}
	return err
}

// updates counts what sources handed over, by Istio's words for it.
func (d *Discovery) updates() map[string]uint64 {
	n := d.shards.Handed()
	return map[string]uint64{"config": n.Objects, "svc": n.Services, "svcdelete": n.ServicesGone, "eds": n.Endpoints}
}
