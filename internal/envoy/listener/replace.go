package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"fairway/internal/envoy"
)

// VirtualOutbound is the listener for traffic that a sidecar's workload sends.
const VirtualOutbound = "virtualOutbound"

// ReplaceTelemetry changes the logs, spans and metrics of a listener that was built here: sends is for traffic that the workload sends,
// serves for traffic that it serves.
func ReplaceTelemetry(l *listenerv3.Listener, sends, serves AccessLog) error {
	a := sends
	if l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND {
		a = serves
	}
	if l.GetName() == VirtualOutbound || l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND {
		l.AccessLog = a.ForNoRoute()
	}
	for _, c := range l.GetFilterChains() {
		if err := a.replaceTelemetry(c); err != nil {
			return err
		}
	}
	if c := l.GetDefaultFilterChain(); c != nil {
		return a.replaceTelemetry(c)
	}
	return nil
}

func (a AccessLog) replaceTelemetry(c *listenerv3.FilterChain) error {
	for _, f := range c.GetFilters() {
		switch {
		case f.GetTypedConfig().MessageIs(&hcmv3.HttpConnectionManager{}):
			m := &hcmv3.HttpConnectionManager{}
			if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
				return err
			}
			m.AccessLog, m.Tracing, m.RequestIdExtension = a.forHTTP(), nil, nil
			a.trace(m)
			f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(m)}
		case f.GetTypedConfig().MessageIs(&tcpproxyv3.TcpProxy{}):
			m := &tcpproxyv3.TcpProxy{}
			if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
				return err
			}
			a.logConnections(m)
			f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(m)}
		}
	}
	return nil
}

// trace sets how an HTTP connection manager makes spans, if there are settings for it.
func (a AccessLog) trace(m *hcmv3.HttpConnectionManager) {
	if a.Telemetry != nil {
		m.Tracing, m.RequestIdExtension = a.Telemetry.Tracing, a.Telemetry.IDs
	}
}

// logConnections makes a TCP proxy log and count. If it counts, it also does so when a connection is opened.
func (a AccessLog) logConnections(m *tcpproxyv3.TcpProxy) {
	m.AccessLog, m.AccessLogOptions = a.forTCP(), nil
	if a.Count != NoReporter {
		m.AccessLogOptions = &tcpproxyv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	}
}
