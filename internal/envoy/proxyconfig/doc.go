// Package proxyconfig changes what a proxy is sent as its own configuration says of headers and connections (ProxyConfig.proxyHeaders,
// ProxyConfig.connectionSettings) where the same route, virtual host, cluster or listener is every proxy's. Everything here is pure.
//
// It must not know which proxies say so.
package proxyconfig
