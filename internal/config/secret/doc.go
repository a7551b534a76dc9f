// Package secret reads the parts of a Kubernetes Secret that TLS needs: certificates with their keys, and authorities' certificates; and
// who may have it.
//
// None of its problems contains a value of the Secret, and all users may see the parts that it calls public. The package must not know who
// asks for credentials, nor how they come to proxies.
package secret
