// Package secret delivers what Secrets hold to the proxies whose listeners and clusters name it, and to nobody else:
// gateways, and sidecars that a DestinationRule picks by its workloadSelector.
//
//	Secrets ──► Shapes (namespace, name): what each can be used for ──► listeners and clusters that name it
//	   └───────────────────────────────► one resource a secret and layer ◄──────────┘ Encoded.Secrets
//
// A secret is looked for in the namespace of the proxy's workload. What names it reads its shape alone, so one that is
// replaced is one resource to send: no listener is computed again, and no connection ends.
//
// The specification is ServerTLSSettings.credential_name and ClientTLSSettings.credential_name of istio.io/api. The
// package must not know who may receive what it derives: that is decided for each stream (internal/app).
package secret
