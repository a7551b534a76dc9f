// Package identity defines a workload's identity: a SPIFFE ID of Istio's form (spiffe://<trust domain>/ns/<namespace>/sa/<service
// account>), and the mesh's own trust domains.
//
// Its folders are the control plane's part of identity: ca signs certificates, authn finds out who calls (review asks a Kubernetes API
// server about tokens), service serves both over gRPC, safefile writes files that hold secrets.
//
// It must not know how certificates reach a proxy, nor the rules about identities: the agent and compile do.
package identity
