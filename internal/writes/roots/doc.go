// Package roots keeps the mesh's roots in the ConfigMap istio-ca-root-cert of every namespace, where pods mount it, under the key
// root-cert.pem. It follows these ConfigMaps alone, and namespaces' names.
package roots
