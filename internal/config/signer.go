package config

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// SignerRoots returns, in PEM, the roots of a Kubernetes signer: those of the entries of MeshConfig.caCertificates that name it in
// certSigners.
func SignerRoots(spec *meshconfig.MeshConfig, signer string) (pem []byte) {
	for _, c := range spec.GetCaCertificates() {
		if slices.Contains(c.GetCertSigners(), signer) && c.GetPem() != "" {
			pem = append(append(pem, c.GetPem()...), '\n')
		}
	}
	return pem
}
