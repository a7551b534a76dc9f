package proof

import (
	"context"
	"log/slog"
	"net"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/xdstype"
)

// Withhold keeps keys from streams that nobody vouches for, and roots from those that nobody could believe. On the
// secure address a proxy is who it says, or it is refused (guard): it gets the secrets of its namespace, and knows who
// tells it the roots. The plaintext address believes what proxies say of themselves; it gives both to this machine
// alone, where whoever may connect could as well ask the control plane's own files.
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
