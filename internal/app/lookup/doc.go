// Package lookup keeps the addresses of host names that proxies cannot be sent as names: those of east-west gateways
// (network.Tables.Names). It asks the machine's name servers for both families, asks again when an answer has expired, and reports
// changes. If a name is not answered for, it keeps its addresses.
//
// RFC 1035 and RFC 3596 specify the questions and answers, resolv.conf(5) the settings.
//
// The package must not know what the addresses are for.
package lookup
