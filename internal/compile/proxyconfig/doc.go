// Package proxyconfig adds variants of resources for proxies that have settings of their own (ProxyConfig.proxyHeaders,
// ProxyConfig.connectionSettings). Most proxies have none, and take no rows here.
//
// It must not know how a message is changed: envoy/proxyconfig does. Settings that listeners are made with are compile/listener's.
package proxyconfig
