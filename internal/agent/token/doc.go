// Package token keeps the secret that tells the agent's Envoy, and its own commands, from all other callers of its sockets and
// ports: an author of rules can make Envoy connect to any address and send any request, but knows no file of the machine.
//
// It must not know which protocols those sockets carry. shown has the names that other programs need.
package token
