package mesh

import "strings"

// MTLS is what a workload's port takes from its clients (security.istio.io PeerAuthentication.MutualTLS.Mode).
type MTLS uint8

// The modes. The zero value is what holds where no one said anything.
const (
	Permissive MTLS = iota // mutual TLS and plaintext
	Strict                 // mutual TLS only
	Disabled               // connections are passed to the workload unchanged
)

func (m MTLS) String() string { return [...]string{"PERMISSIVE", "STRICT", "DISABLE"}[m] }

const spiffeScheme = "spiffe://"

// SPIFFE returns the identity of a service account as certificates have it: "spiffe://<trust domain>/ns/<namespace>/sa/<account>". A SPIFFE
// ID is returned unchanged.
func SPIFFE(trustDomain, namespace, account string) string {
	if strings.HasPrefix(account, spiffeScheme) {
		return account
	}
	return spiffeScheme + trustDomain + "/ns/" + namespace + "/sa/" + account
}
