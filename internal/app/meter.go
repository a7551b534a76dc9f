package app

import (
	"fairway/internal/admin"
	"fairway/internal/xds"
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

func (m meter) Nacked(_ xds.ProxyID, typ string) { m.metrics.Rejected(typ) }
