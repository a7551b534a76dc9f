// Package injection keeps the injector that is in force. It is built from the folder with the injector's configuration, as a
// ConfigMap is mounted, and from the mesh configuration. If the new configuration cannot be used, the last injector stays in force.
//
// It must not know how pods are injected (package inject), nor who asks (package webhook).
package injection
