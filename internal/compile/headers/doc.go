// Package headers lays over what all proxies are sent what it is for those whose own configuration says something of headers
// (ProxyConfig.proxyHeaders): most say nothing, and take no rows here.
//
// It must not know what a message says of headers: envoy/headers does. What listeners alone say is compile/listener's.
package headers
