package proof

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"fairway/internal/identity"
	"fairway/internal/xds/library"
)

// TestKeysNeedAnIdentity: what is secret, and roots, go to authenticated streams, and in the clear to this machine alone.
func TestKeysNeedAnIdentity(t *testing.T) {
	away, here, six := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6loopback}
	secure := credentials.TLSInfo{State: tls.ConnectionState{}}
	for _, c := range []struct {
		from net.Addr
		auth credentials.AuthInfo
		typ  string
		want bool
	}{
		{away, nil, library.SecretType, true}, {away, secure, library.SecretType, false}, {here, nil, library.SecretType, false},
		{six, nil, library.SecretType, false},
		{&net.UnixAddr{Name: "/x"}, nil, library.SecretType, false}, {away, nil, library.ListenerType, false},
		{away, nil, identity.BundleType, true}, {away, secure, identity.BundleType, false}, {here, nil, identity.BundleType, false},
	} {
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: c.from, AuthInfo: c.auth})
		if got := Withhold(slog.New(slog.DiscardHandler))(ctx, c.from, c.typ); got != c.want {
			t.Errorf("%s, %v, %s: withheld %v, want %v", c.from, c.auth, c.typ, got, c.want)
		}
	}
}
