package mesh

import "strings"

// MTLS is the kind of connections that a workload's port accepts (security.istio.io PeerAuthentication.MutualTLS.Mode).
type MTLS uint8

// The modes. The zero value is the default.
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
