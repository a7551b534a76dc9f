package config

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// SignerRoots are the roots, in PEM, by which certificates of a signer of Kubernetes are known: those of the entries of
// MeshConfig.caCertificates that have it among their certSigners.
func SignerRoots(spec *meshconfig.MeshConfig, signer string) (pem []byte) {
	for _, c := range spec.GetCaCertificates() {
		if slices.Contains(c.GetCertSigners(), signer) && c.GetPem() != "" {
			pem = append(append(pem, c.GetPem()...), '\n')
		}
	}
	return pem
}
