package logline

import (
	"net/url"
	"testing"
)

// TestPeer: without a trust domain the control plane names the mesh's own.
func TestPeer(t *testing.T) {
	for trust, want := range map[string]string{
		"":              "account=shop%2Fweb&peer=spiffe%3A%2F%2Fcluster.local%2Fns%2Fshop%2Fsa%2Fweb",
		"other.example": "peer=spiffe%3A%2F%2Fother.example%2Fns%2Fshop%2Fsa%2Fweb",
	} {
		q := url.Values{}
		if Peer(q, "shop/web", trust); q.Encode() != want {
			t.Errorf("trust domain %q: %s, want %s", trust, q.Encode(), want)
		}
	}
}
