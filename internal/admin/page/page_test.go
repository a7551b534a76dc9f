package page

import (
	"encoding/json"
	"strings"
	"testing"

	"fairway/internal/xdstype"
)

// TestNoncesAreFields: the nonces are written under Istio's names, for scripts that read them, and are read back.
func TestNoncesAreFields(t *testing.T) {
	const node = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local"
	p := ProxySync{ProxyID: node, Synced: true, Rejected: map[string]string{"cds": "no"}}
	p.Nonces[xdstype.Clusters] = Nonces{Sent: "1", Acked: "2"}
	p.Nonces[xdstype.VirtualHosts] = Nonces{Sent: "3"}
	p.Nonces[xdstype.Patches] = Nonces{Sent: "not told"}
	text, err := json.Marshal([]ProxySync{p})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"proxy":"web-1.shop"`, `"node":"` + node + `"`, `"cluster_sent":"1"`, `"cluster_acked":"2"`, `"virtual_host_sent":"3"`, `"rejected":{"cds":"no"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %s", text, want)
		}
	}
	if strings.Contains(string(text), "not told") || strings.Contains(string(text), "listener_sent") {
		t.Errorf("%s tells what the page does not tell of", text)
	}
	var back []ProxySync
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	p.Nonces[xdstype.Patches] = Nonces{}
	if back[0].Nonces != p.Nonces || back[0].ProxyID != node || !back[0].Synced || back[0].Rejected["cds"] != "no" {
		t.Errorf("read back as %+v", back[0])
	}
	var older ProxySync
	if err := json.Unmarshal([]byte(`{"proxy": "`+node+`"}`), &older); err != nil || older.ProxyID != node {
		t.Errorf("the line of an earlier control plane is read as %+v, %v", older, err)
	}
	if err := json.Unmarshal([]byte(`{"cluster_sent": 5}`), &back[0]); err == nil || !strings.Contains(err.Error(), "cluster_sent") {
		t.Errorf("a nonce that is a number: %v", err)
	}
}
