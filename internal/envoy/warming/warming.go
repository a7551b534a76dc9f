// Package warming holds an agent's report of its Envoy's warming listeners and clusters: Envoy acknowledges them when it takes them, and
// uses them once they have warmed. Both ends use this package; it must not know how reports travel.
package warming

import (
	"fmt"
)

// ReportType is the type URL of the request that carries a report. error_detail holds the output of Encode; without it nothing warms.
const ReportType = "type.googleapis.com/fairway.v1.Warming"

// Report is what an agent found in its Envoy's statistics.
type Report struct {
	Listeners, Clusters int  // that warm
	Unknown             bool // the agent has not asked its Envoy yet
	Untold              bool // its Envoy does not tell: no report follows
}

// None reports whether nothing warms.
func (r Report) None() bool { return r == Report{} }

// most bounds the numbers of a report.
const most = 1_000_000

const (
	unknown = "unknown"
	untold  = "untold"
)

// Encode returns the report as text; empty: nothing warms.
func (r Report) Encode() string {
	switch {
	case r.Unknown:
		return unknown
	case r.Untold:
		return untold
	case r.None():
		return ""
	}
	return fmt.Sprintf("listeners=%d clusters=%d", min(r.Listeners, most), min(r.Clusters, most))
}

// Decode reads the output of Encode. An error says what is wrong with it; such a report does not count.
func Decode(text string) (r Report, err error) {
	switch text {
	case "":
		return Report{}, nil
	case unknown:
		return Report{Unknown: true}, nil
	case untold:
		return Report{Untold: true}, nil
	}
	n, err := fmt.Sscanf(text, "listeners=%d clusters=%d", &r.Listeners, &r.Clusters)
	if err != nil || n != 2 || r.Listeners < 0 || r.Clusters < 0 || r.Encode() != text {
		return Report{}, fmt.Errorf("%.40q: want listeners=1 clusters=2", text)
	}
	return r, nil
}
