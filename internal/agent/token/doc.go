// Package token keeps the secret by which the agent tells its Envoy, and its own commands, from everybody else who
// reaches its sockets and ports: whoever writes rules may have Envoy connect to any address and send any request, but
// knows no file of the machine.
//
// It must not know what is spoken on those sockets.
package token
