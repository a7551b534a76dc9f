// Package signer gets certificates for DNS names from a signer of Kubernetes (certificates.k8s.io/v1): it asks by a
// CertificateSigningRequest, approves that as far as it may, and takes what is signed once it has checked it. It keeps one for the
// control plane itself, too. It must not know what the other certificates are for, nor where they are kept.
package signer
