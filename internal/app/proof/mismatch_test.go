package proof

import (
	"net"
	"testing"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/mesh"
)

// TestClusterThatVouched: a proxy that names no cluster is of the cluster that vouches for it. A proxy that names another one is
// refused. If no cluster vouched for the credential, the proxy may name any.
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
