// Package certs keeps certificates for names that the mesh configuration lists (MeshConfig.certificates), signed by the mesh's own
// authority, in Secrets of the control plane's namespace: the certificate under cert-chain.pem, its key under key.pem, the mesh's roots
// under root-cert.pem, as Istio's control plane had them. It follows only Secrets of that type, and must not know the use of the
// certificates.
package certs
