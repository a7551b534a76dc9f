package proxyconfig

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/mesh"
)

// underscores maps the numbers in ProxyConfig to Envoy's actions.
var underscores = [...]corev3.HttpProtocolOptions_HeadersWithUnderscoresAction{
	1: corev3.HttpProtocolOptions_ALLOW,
	2: corev3.HttpProtocolOptions_REJECT_REQUEST,
	3: corev3.HttpProtocolOptions_DROP_HEADER,
}

// slashes does the same for escaped slashes.
var slashes = [...]hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction{
	1: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
	2: hcmv3.HttpConnectionManager_REJECT_REQUEST,
	3: hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT,
	4: hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD,
}

// connections changes the settings of a listener's HTTP connections, and reports whether it did.
func connections(m *hcmv3.HttpConnectionManager, s mesh.ConnectionSettings) (changed bool) {
	common := func() *corev3.HttpProtocolOptions {
		if m.CommonHttpProtocolOptions == nil {
			m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{}
		}
		return m.CommonHttpProtocolOptions
	}
	two := func() *corev3.Http2ProtocolOptions {
		if m.Http2ProtocolOptions == nil {
			m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
		}
		return m.Http2ProtocolOptions
	}
	for field, n := range s.Fields() {
		span := durationpb.New(time.Duration(n) * time.Millisecond)
		switch field {
		case "httpIdleTimeout":
			common().IdleTimeout = span
		case "httpMaxConnectionDuration":
			common().MaxConnectionDuration = span
		case "httpDrainTimeout":
			m.DrainTimeout = span
		case "httpRequestTimeout":
			m.RequestTimeout = span
		case "httpRequestHeadersTimeout":
			m.RequestHeadersTimeout = span
		case "httpStreamIdleTimeout":
			m.StreamIdleTimeout = span
		case "httpMaxStreamDuration":
			common().MaxStreamDuration = span
		case "httpMaxConcurrentStreams":
			two().MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
		case "http2InitialStreamWindowSize":
			two().InitialStreamWindowSize = wrapperspb.UInt32(uint32(n))
		case "http2InitialConnectionWindowSize":
			two().InitialConnectionWindowSize = wrapperspb.UInt32(uint32(n))
		case "httpHeadersWithUnderscoresAction":
			common().HeadersWithUnderscoresAction = underscores[n]
		case "httpMergeSlashes":
			m.MergeSlashes = n == 1
		case "httpPathWithEscapedSlashesAction":
			m.PathWithEscapedSlashesAction = slashes[n]
		default:
			continue
		}
		changed = true
	}
	return changed
}
