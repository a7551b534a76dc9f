// Package secret delivers the content of Secrets only to the proxies that have listeners and clusters which name them: gateways, and
// sidecars that a DestinationRule selects by its workloadSelector.
//
//	Secrets ──► Shapes (namespace, name): what each can be used for ──► listeners and clusters that name it
//	   └───────────────────────────────► one resource a secret and layer ◄──────────┘ Encoded.Secrets
//
// A secret is looked for in the namespace of the proxy's workload. Resources that name it depend only on its shape, so if it is replaced,
// one resource is sent: no listener is computed again, and no connection ends.
//
// The package decides which proxies may receive a Secret, by the service account that a proxy proved. It must not know how a stream
// proves it (internal/app).
//
// The specification is ServerTLSSettings.credential_name and ClientTLSSettings.credential_name of istio.io/api.
package secret
