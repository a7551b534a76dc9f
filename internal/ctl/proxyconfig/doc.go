// Package proxyconfig has pilotctl's verb proxy-config: the resources of one proxy, in istioctl's columns. They come from the control
// plane that sent them, from the proxy's own Envoy, or from a file with Envoy's config_dump. It reads messages as JSON, so that it does not
// depend on Envoy's types.
//
// Start at Command. It must not know how control planes and proxies are reached: Session does.
package proxyconfig
