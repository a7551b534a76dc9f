package live

import (
	"fmt"

	"fairway/internal/admin/page"
	report "fairway/internal/envoy/warming"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
)

// Reports are agents' reports of what warms, as streams take them.
func Reports() *xds.WarmingReports {
	return &xds.WarmingReports{
		Type: report.ReportType, Warms: []string{xdstype.ListenerURL, xdstype.ClusterURL},
		Decode: func(detail string) (xds.Warming, error) {
			r, err := report.Decode(detail)
			return xds.Warming(r), err
		},
	}
}

// warms describes a proxy that was sent everything, and does not use all of it yet.
func warms(b xds.ProxyLag, out *page.LiveProxy) {
	out.State = page.ProxyWarming
	since := b.Warms.UTC()
	out.Since = &since
	out.Detail = "its agent has not asked it since the last acknowledgement"
	if b.Warming.Listeners+b.Warming.Clusters > 0 {
		out.Detail = fmt.Sprintf("listeners: %d, clusters: %d", b.Warming.Listeners, b.Warming.Clusters)
	}
}
