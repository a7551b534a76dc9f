package relay_test

import (
	"fmt"
	"testing"

	"fairway/test/rig"
)

// TestMetrics: requests and responses, streams that ended on either side, and attempts that failed.
func TestMetrics(t *testing.T) {
	p, a, e := connected(t, 3, false)
	has := func(want map[string]float64, failures bool) {
		t.Helper()
		rig.Eventually(t, func() error {
			got := rig.Metrics(t, a.relay.Collector())
			for series, value := range want {
				if got[series] != value {
					return fmt.Errorf("%s is %v, want %v", series, got[series], value)
				}
			}
			if got["xds_proxy_requests"] < 3 || got["xds_proxy_responses"] < 3 {
				return fmt.Errorf("%v requests and %v responses", got["xds_proxy_requests"], got["xds_proxy_responses"])
			}
			if failed := got["istiod_connection_failures"]; failed > 0 != failures {
				return fmt.Errorf("%v failed attempts", failed)
			}
			return nil
		})
	}
	has(map[string]float64{
		"xds_relay_connected": 1, "xds_relay_reconnects_total": 0, `istiod_connection_terminations{type="cancelled"}`: 0,
		`istiod_connection_terminations{type="error"}`: 0, `envoy_connection_terminations{type="cancelled"}`: 0,
	}, false)
	p.stop()
	has(map[string]float64{
		"xds_relay_connected": 0, "xds_relay_reconnects_total": 1, `istiod_connection_terminations{type="cancelled"}`: 0,
		`istiod_connection_terminations{type="error"}`: 1,
	}, true)
	e.disconnect()
	has(map[string]float64{
		`envoy_connection_terminations{type="cancelled"}`: 1, `envoy_connection_terminations{type="error"}`: 0,
	}, true)
}
