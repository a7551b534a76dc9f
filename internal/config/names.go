package config

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config/document"
	"fairway/internal/config/origin"
	"fairway/internal/config/secret"
	"fairway/internal/config/traffic"
)

// Names of the rooms below that other packages need, so that they import only this package.
type (
	// Document is one YAML or JSON document of a file, as written.
	Document = document.Document
	// ConfigSource is a source of configuration from MeshConfig.configSources.
	ConfigSource = origin.ConfigSource
	// Unmet is an entry of MeshConfig's configSources, certificates or caCertificates, or a field of one, that is not followed.
	Unmet = origin.Unmet
	// Credential is the content of a Secret for TLS and registries.
	Credential = secret.Credential
	// Holders are the service accounts that may have a Secret.
	Holders = secret.Holders
	// GatewaysOf are the namespaces with Gateways that may use a Secret.
	GatewaysOf = secret.Gateways
)

const (
	// MaxDocuments is how many documents one file may hold.
	MaxDocuments = document.MaxDocuments
	// TLSSecret is the type of a Secret that must hold a certificate and its key.
	TLSSecret = secret.TLSType
	// HoldersAnnotation of a Secret names the service accounts of its namespace that may have it.
	HoldersAnnotation = secret.HoldersAnnotation
	// GatewaysAnnotation of a Secret names the namespaces with Gateways that may use it.
	GatewaysAnnotation = secret.GatewaysAnnotation
	// FolderScheme and those below are the schemes of the addresses of config sources.
	FolderScheme = origin.FolderScheme
	// XDSScheme is of servers that speak xDS.
	XDSScheme = origin.XDSScheme
	// MCPScheme is of servers that speak MCP.
	MCPScheme = origin.MCPScheme
	// ClusterScheme is of a Kubernetes cluster.
	ClusterScheme = origin.ClusterScheme
	// PushScheme is of a source that connects.
	PushScheme = origin.PushScheme
	// AnyHolder is every service account of the Secret's namespace.
	AnyHolder = secret.AnyHolder
)

// Split takes a file apart into its documents: see document.Split.
func Split(file string, data []byte) []Document { return document.Split(file, data) }

// ConfigSourcesOf lists the sources that a mesh configuration names: see origin.ConfigSourcesOf.
func ConfigSourcesOf(spec *meshconfig.MeshConfig) (out []ConfigSource, bad []Unmet) {
	return origin.ConfigSourcesOf(spec)
}

// ClaimPath reads the name of a claim among the headers of an HTTPMatchRequest: see traffic.ClaimPath.
func ClaimPath(header string) (path []string, is bool) { return traffic.ClaimPath(header) }

// GatewayName resolves a gateway's name as a VirtualService of a namespace writes it: see traffic.GatewayName.
func GatewayName(namespace, written string) (home, name string) {
	return traffic.GatewayName(namespace, written)
}
