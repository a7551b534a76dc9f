// Package certs keeps certificates for names that the mesh configuration lists (MeshConfig.certificates), signed by the mesh's own
// authority, in Secrets of the control plane's namespace: the certificate under cert-chain.pem, its key under key.pem, the mesh's
// roots under root-cert.pem, as Istio's control plane had them. It follows Secrets of that type alone, and must not know what the
// certificates are for.
package certs
