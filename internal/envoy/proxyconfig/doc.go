// Package proxyconfig applies a proxy's own settings of headers and connections (ProxyConfig.proxyHeaders, ProxyConfig.connectionSettings)
// to routes, virtual hosts, clusters and listeners that are otherwise the same for every proxy. Everything here is pure.
//
// It must not know which proxies have such settings.
package proxyconfig
