package config

import (
	"fairway/internal/config/document"
	"fairway/internal/config/secret"
	"fairway/internal/config/traffic"
)

// What others need of the rooms below has its name here too, so that they import one package.
type (
	// Document is one YAML or JSON document as it stands in a file.
	Document = document.Document
	// Credential is what a Secret holds that TLS needs.
	Credential = secret.Credential
	// Holders is who may have a Secret.
	Holders = secret.Holders
	// GatewaysOf are the namespaces whose Gateways may use a Secret.
	GatewaysOf = secret.Gateways
)

const (
	// MaxDocuments is how many documents one file may hold.
	MaxDocuments = document.MaxDocuments
	// TLSSecret is the type of a Secret that must hold a certificate and its key.
	TLSSecret = secret.TLSType
	// HoldersAnnotation of a Secret names the service accounts of its namespace whose proxies are sent it.
	HoldersAnnotation = secret.HoldersAnnotation
	// GatewaysAnnotation of a Secret names the namespaces whose Gateways may use it.
	GatewaysAnnotation = secret.GatewaysAnnotation
	// AnyHolder is every service account of the Secret's namespace.
	AnyHolder = secret.AnyHolder
)

// Split takes a file apart into its documents: see document.Split.
func Split(file string, data []byte) []Document { return document.Split(file, data) }

// ClaimPath reads the name of a claim among the headers of an HTTPMatchRequest: see traffic.ClaimPath.
func ClaimPath(header string) (path []string, is bool) { return traffic.ClaimPath(header) }

// GatewayName resolves a gateway's name as a VirtualService of a namespace writes it: see traffic.GatewayName.
func GatewayName(namespace, written string) (home, name string) {
	return traffic.GatewayName(namespace, written)
}
