// Package lookup keeps the addresses of host names that proxies cannot be sent as names: those of east-west gateways
// (network.Tables.Names). It asks the machine's name servers for both families, again when what they said has ended, and
// tells what has changed. A name that is not answered for keeps the addresses that it had.
//
// The specification of what is asked and answered is RFC 1035 and RFC 3596, of the settings resolv.conf(5).
//
// The package must not know what the addresses are for.
package lookup
