// Package secret reads what a Secret of Kubernetes holds that TLS needs: certificates with their keys, and those who are believed; and
// who may have it.
//
// No problem that it notes holds a value of the Secret, and what it calls public may be shown to everybody. The package must not know
// who asks for credentials, nor how they come to proxies.
package secret
