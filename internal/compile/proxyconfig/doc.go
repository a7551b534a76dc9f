// Package proxyconfig lays over what all proxies are sent what it is for those whose own configuration says otherwise
// (ProxyConfig.proxyHeaders, ProxyConfig.connectionSettings): most say nothing, and take no rows here.
//
// It must not know how a message is changed: envoy/proxyconfig does. Settings that listeners are made with are compile/listener's.
package proxyconfig
