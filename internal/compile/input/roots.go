package input

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareRoots declares the roots that workloads trust, for their agents: those of the mesh's own authority, and MeshConfig.caCertificates.
// CRLs come after the certificates.
func (t *Tables) declareRoots() {
	t.Roots = table.Derive(t.Bundles.Table, "roots", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k mesh.ResourceKey, own *envoy.Encoded, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			more, _ := config.RootsOf(t.field(r, "ca_certificates"), t.TrustDomains(r))
			var c meshconfig.ProxyConfig
			if len(more) == 0 || own.Err != nil || proto.Unmarshal(own.Body, &c) != nil {
				emit(k, own)
				return
			}
			for _, m := range more {
				if !slices.Contains(c.CaCertificatesPem, m) {
					c.CaCertificatesPem = append(c.CaCertificatesPem, m)
				}
			}
			isList := func(text string) int {
				if strings.Contains(text, "X509 CRL") {
					return 1
				}
				return 0
			}
			slices.SortStableFunc(c.CaCertificatesPem, func(a, b string) int { return isList(a) - isList(b) })
			emit(k, envoy.Sealed(proto.MarshalOptions{Deterministic: true}.Marshal(&c)))
		})
}
