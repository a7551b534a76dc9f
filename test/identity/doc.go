// Package identity runs the way of a certificate from end to end, with nothing standing in for anything: a control
// plane with its authority on the secure address, an agent's secrets beside each of two stock Envoys, and traffic
// between them that is nothing but mutual TLS.
//
// Rotations are driven through the programs' own interfaces and waited for by what the proxies acknowledge; nothing
// sleeps. The tests need an Envoy and are skipped without one, and with -short.
package identity
