// Package headers changes what a proxy is sent as its own configuration says of headers (ProxyConfig.proxyHeaders) where the same
// route, virtual host or cluster is every proxy's. Everything here is pure.
//
// It must not know which proxies say so.
package headers
