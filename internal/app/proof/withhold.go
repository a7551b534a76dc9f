package proof

import (
	"context"
	"log/slog"
	"net"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/xdstype"
)

// Withhold returns a function that reports whether a stream must not get secrets or roots. On the secure address a caller without a
// proved identity is refused (guard): a proxy gets the secrets of its namespace, and can verify who sends the roots. The plaintext
// address does not verify what proxies say about themselves. It sends both only to this machine, where every local caller could as
// well read the control plane's own files.
func Withhold(log *slog.Logger) func(context.Context, net.Addr, string) bool {
	return func(ctx context.Context, from net.Addr, typ string) bool {
		if typ != xdstype.SecretURL && typ != xdstype.BundleURL {
			return false
		}
		if authn.OverTLS(ctx) {
			return false
		}
		if identity.LocalPeer(from) {
			return false
		}
		if typ == xdstype.BundleURL {
			return true // nothing that a proxy needs; agents do not even ask for it there
		}
		log.Warn("secrets are withheld from a plaintext connection of another machine; let the proxy use --secureGRPCAddr",
			"scope", "audit", "address", from.String())
		return true
	}
}
