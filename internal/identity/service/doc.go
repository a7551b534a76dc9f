// Package service is the certificate authority's door: Istio's gRPC service istio.v1.auth.IstioCertificateService. Who
// calls is found out by authn, what is signed by ca; here stand the order of the checks, the limits, the audit log and
// the metrics under Istio's names.
//
// It must not know how an agent makes its requests, nor what else is served on the same address.
package service
