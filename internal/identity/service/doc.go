// Package service serves the certificate authority: Istio's gRPC service istio.v1.auth.IstioCertificateService. authn authenticates the
// caller, and ca signs; this package has the order of the checks, the limits, the audit log and the metrics under Istio's names.
//
// It must not know how an agent makes its requests, nor the other services on the same address.
package service
