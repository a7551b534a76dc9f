// Package identity says who a workload is: a SPIFFE id of the form that Istio gives (spiffe://<trust
// domain>/ns/<namespace>/sa/<service account>), and which trust domains are one's own.
//
// Its folders are the control plane's part of identity: ca signs certificates, authn finds out who calls (review asks a Kubernetes API
// server about tokens), service serves both over gRPC, safefile writes files that hold secrets.
//
// It must not know how certificates reach a proxy, nor the rules about identities: the agent and compile do.
package identity
