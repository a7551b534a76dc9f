// Package roots keeps the mesh's roots in the ConfigMap istio-ca-root-cert of every namespace that the mesh sees, where pods mount it,
// under the key root-cert.pem. It follows only these ConfigMaps, and namespaces' names and labels.
package roots
