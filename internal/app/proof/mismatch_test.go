package proof

import (
	"net"
	"testing"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/mesh"
)

// TestClusterThatVouched: who says nothing is of the cluster that vouches for it; who says another one is refused, and who shows
// what no cluster vouched for may say any.
func TestClusterThatVouched(t *testing.T) {
	for _, c := range []struct {
		vouched, says, is string
		refused           bool
	}{
		{"west", "west", "west", false}, {"west", "", "west", false}, {"west", "east", "east", true}, {"", "east", "east", false},
	} {
		shown := Proof{caller: authn.Caller{
			ID: identity.ID{TrustDomain: "mesh", Namespace: "shop", ServiceAccount: "web"}, By: "token", Cluster: c.vouched,
		}}
		p := mesh.Proxy{ID: "sidecar~10.0.0.1~web-1.shop~x", Namespace: "shop", Cluster: c.says}
		shown.Identify(&p, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)})
		if err := shown.Mismatch(p); (err != nil) != c.refused || p.Cluster != c.is {
			t.Errorf("%+v: it is of %q, %v", c, p.Cluster, err)
		}
	}
}
