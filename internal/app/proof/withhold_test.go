package proof

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"fairway/internal/xdstype"
)

// TestKeysNeedAnIdentity: secrets and roots go to authenticated streams; in plaintext they go to this machine only.
func TestKeysNeedAnIdentity(t *testing.T) {
	away, here, six := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6loopback}
	secure := credentials.TLSInfo{State: tls.ConnectionState{}}
	for _, c := range []struct {
		from net.Addr
		auth credentials.AuthInfo
		typ  string
		want bool
	}{
		{away, nil, xdstype.SecretURL, true}, {away, secure, xdstype.SecretURL, false}, {here, nil, xdstype.SecretURL, false},
		{six, nil, xdstype.SecretURL, false},
		{&net.UnixAddr{Name: "/x"}, nil, xdstype.SecretURL, false}, {away, nil, xdstype.ListenerURL, false},
		{away, nil, xdstype.BundleURL, true}, {away, secure, xdstype.BundleURL, false}, {here, nil, xdstype.BundleURL, false},
	} {
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: c.from, AuthInfo: c.auth})
		if got := Withhold(slog.New(slog.DiscardHandler))(ctx, c.from, c.typ); got != c.want {
			t.Errorf("%s, %v, %s: withheld %v, want %v", c.from, c.auth, c.typ, got, c.want)
		}
	}
}
