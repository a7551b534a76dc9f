package proxyconfig

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy"
	"fairway/internal/envoy/proxyconfig"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// named begins the names of settings, which identify the shelves.
const named = "proxyConfig "

// Lay adds the variants of all resources for proxies with settings of their own.
func Lay(proxies *demand.Tables, parts []demand.Part) []demand.Part {
	own := demand.DeclarePatched(proxies.Singular, "proxyConfig", func(p demand.Placement) string {
		if own := Own.At(p); own != (mesh.OwnSettings{}) {
			return named + own.String()
		}
		return ""
	})
	lay := func(typ xdstype.Type, change func(mesh.OwnSettings, *envoy.Encoded) *envoy.Encoded) {
		one, rest := demand.Together(typ, parts)
		parts = append(rest, own.Over(one, "proxyConfig "+strings.ToLower(typ.String()),
			func(_ *table.Reader, by string, _ mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded {
				return change(mesh.ParseOwnSettings(strings.TrimPrefix(by, named)), e)
			}))
	}
	lay(xdstype.Listeners, listener)
	lay(xdstype.Clusters, cluster)
	lay(xdstype.Routes, routes)
	lay(xdstype.VirtualHosts, host)
	return parts
}

// changed decodes a message of a resource and returns it as change leaves it; nil if it is unchanged, or cannot be read.
func changed[M envoy.Message](body []byte, m M, change func(M) (bool, error)) envoy.Message {
	if proto.Unmarshal(body, m) != nil {
		return nil
	}
	if did, err := change(m); err != nil || !did {
		return nil
	}
	return m
}

// as returns a resource with a message in place of its own; nil: the resource as it is.
func as(e *envoy.Encoded, m envoy.Message) *envoy.Encoded {
	if m == nil {
		return e
	}
	return e.As(m)
}

func listener(s mesh.OwnSettings, e *envoy.Encoded) *envoy.Encoded {
	return as(e, changed(e.Body, &listenerv3.Listener{}, func(l *listenerv3.Listener) (bool, error) { return proxyconfig.Listener(l, s) }))
}

func cluster(s mesh.OwnSettings, e *envoy.Encoded) *envoy.Encoded {
	if !proxyconfig.Clusters(s) {
		return e
	}
	return as(e, changed(e.Body, &clusterv3.Cluster{}, func(c *clusterv3.Cluster) (bool, error) { return proxyconfig.Cluster(c, s) }))
}

func host(s mesh.OwnSettings, e *envoy.Encoded) *envoy.Encoded {
	return as(e, changed(e.Body, &routev3.VirtualHost{}, func(h *routev3.VirtualHost) (bool, error) { return proxyconfig.Host(h, s), nil }))
}

// routes changes both forms of a route configuration: for clients that ask for virtual hosts, and for others.
func routes(s mesh.OwnSettings, e *envoy.Encoded) *envoy.Encoded {
	change := func(c *routev3.RouteConfiguration) (bool, error) { return proxyconfig.Routes(c, s), nil }
	out := as(e, changed(e.Body, &routev3.RouteConfiguration{}, change))
	if e.WithoutVHDS == nil || out.Err != nil {
		return out
	}
	m := changed(e.WithoutVHDS.Body, &routev3.RouteConfiguration{}, change)
	if m == nil {
		return out
	}
	if bare := e.WithoutVHDS.As(m); bare != nil {
		both := *out
		both.WithoutVHDS = bare
		out = &both
	}
	return out
}
