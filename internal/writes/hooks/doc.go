// Package hooks keeps what API servers believe of this control plane's webhooks: the roots (caBundle) in the configurations of its
// revision, and failurePolicy Fail of those that validate, once one answers. It makes no configuration, and takes none away.
package hooks
