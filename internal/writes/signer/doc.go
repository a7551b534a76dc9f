// Package signer gets certificates for DNS names from a signer of Kubernetes (certificates.k8s.io/v1). It creates a
// CertificateSigningRequest, approves it if it has the right, and checks the signed certificate before it returns it. It also keeps a
// certificate for the control plane itself. It must not know the use of the other certificates, nor where they are kept.
package signer
