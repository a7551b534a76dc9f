// Package hooks updates the configurations of this control plane's webhooks in API servers: the roots (caBundle) in the configurations of
// its revision, the key that API servers show in the path of injection, and failurePolicy Fail for webhooks of validation, once one
// answers. It creates and deletes no configuration.
//
// The configuration is the only place of a key: every client that may read the configuration is trusted with the key. Keys runs in every
// replica and reads the keys there, so replicas agree without a Secret.
package hooks
