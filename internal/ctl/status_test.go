package ctl

import (
	"strings"
	"testing"

	"fairway/internal/admin/page"
	"fairway/internal/xdstype"
)

// TestSyncedIsWhatWasCompared: an empty queue is not enough for SYNCED, and differences that an audit found are printed.
func TestSyncedIsWhatWasCompared(t *testing.T) {
	for _, c := range []struct {
		proxy       page.ProxySync
		sent, acked string
		want        string
	}{
		{page.ProxySync{Compared: true}, "1", "1", "SYNCED"},
		{page.ProxySync{}, "1", "1", "NOT COMPARED"},
		{page.ProxySync{Compared: true}, "2", "1", "STALE"},
		{page.ProxySync{Compared: true}, "", "", "NOT SENT"},
		{page.ProxySync{Compared: true, Rejected: map[string]string{"cds": "no"}}, "1", "1", "REJECTED"},
	} {
		c.proxy.Nonces[xdstype.Clusters] = page.Nonces{Sent: c.sent, Acked: c.acked}
		if got := syncState(c.proxy, xdstype.Clusters); got != c.want {
			t.Errorf("%+v, sent %q, acknowledged %q: %s, want %s", c.proxy, c.sent, c.acked, got, c.want)
		}
	}
	if told := divergence(page.ProxySync{Compared: true}); told != nil {
		t.Errorf("told of nothing: %q", told)
	}
	told := divergence(page.ProxySync{ProxyID: "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local", Diverged: 3})
	if len(told) != 1 || !strings.Contains(told[0], "web-1.shop") || !strings.Contains(told[0], "3 places") {
		t.Errorf("told %q", told)
	}
}
