package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/admin/message"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// heldResource is one resource that a proxy holds, as a message.
type heldResource struct {
	name, version string
	message       proto.Message
}

// clientResources returns the resources of a type that a proxy holds. Route configurations of the state-of-the-world protocol contain their
// virtual hosts, as they were sent.
func (p *Pages) clientResources(proxy xds.ProxyStatus, typ string) ([]heldResource, error) {
	var out []heldResource
	for _, res := range p.Streams.ClientResources(proxy.Proxy, typ) {
		m, err := message.Decode(typ, res.Name, res.Body())
		if bare := res.Options().StateForm; bare != nil && !proxy.Delta {
			m, err = p.complete(proxy.Proxy, res.Name, bare)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, heldResource{res.Name, library.FormatVersion(res.Version()), m})
	}
	return out, nil
}

// complete adds the virtual hosts in the tables to a route configuration.
func (p *Pages) complete(proxy library.ProxyID, name string, bare *library.Part) (proto.Message, error) {
	m, err := message.Decode(xdstype.RouteURL, name, bare.Body)
	if err != nil {
		return nil, err
	}
	route := m.(*routev3.RouteConfiguration)
	for _, body := range p.members(mesh.ProxyID(proxy), bare.MemberPrefix) {
		host, err := message.Decode(xdstype.VirtualHostURL, name, body)
		if err != nil {
			return nil, err
		}
		route.VirtualHosts = append(route.VirtualHosts, host.(*routev3.VirtualHost))
	}
	return route, nil
}

// members returns the virtual hosts that a proxy sees under a prefix, by name. It walks through all virtual hosts.
func (p *Pages) members(proxy mesh.ProxyID, prefix string) [][]byte {
	type member struct {
		name string
		rank int // of its shelf: the highest is used
		body []byte
	}
	var all []member
	p.Graph.Store.Read(func(tx *table.Tx) {
		to, _ := table.Lookup(tx, p.Graph.Out.Attachments, proxy)
		for _, t := range p.Graph.Out.Resources[xdstype.VirtualHosts] {
			for k, e := range table.Each(tx, t) {
				if rank := slices.Index(to[xdstype.VirtualHosts], k.Shelf); rank >= 0 && strings.HasPrefix(k.Name, prefix) && e.Err == nil {
					all = append(all, member{k.Name, rank, e.Body})
				}
			}
		}
	})
	slices.SortFunc(all, func(a, b member) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return b.rank - a.rank
	})
	all = slices.CompactFunc(all, func(a, b member) bool { return a.name == b.name })
	bodies := make([][]byte, len(all))
	for i, m := range all {
		bodies[i] = m.body
	}
	return bodies
}

// configDump shows the resources that a proxy was sent in the form of Envoy's own /config_dump, for scripts that read that.
func (p *Pages) configDump(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("proxyID")
	if name == "" {
		name = r.URL.Query().Get("proxy")
	}
	proxy, ok := p.proxy(w, r, name)
	if !ok {
		return
	}
	dump, err := p.dump(proxy)
	if err != nil {
		fail(w, err)
		return
	}
	text, err := protojson.Marshal(dump)
	if err != nil {
		fail(w, err)
		return
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		fail(w, err)
		return
	}
	write(w, "application/json", printable.JSON(b.Bytes()))
}

// dump returns the sections of Envoy's dump that xDS fills, in Envoy's order.
func (p *Pages) dump(proxy xds.ProxyStatus) (*adminv3.ConfigDump, error) {
	out := &adminv3.ConfigDump{}
	for _, section := range []func(xds.ProxyStatus) (proto.Message, error){
		p.dumpClusters, p.dumpListeners, p.dumpRoutes, p.dumpEndpoints, p.dumpSecrets,
	} {
		m, err := section(proxy)
		if err != nil {
			return nil, err
		}
		packed, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		out.Configs = append(out.Configs, packed)
	}
	return out, nil
}

// each packs the resources of a type that a proxy holds, and calls add with each.
func (p *Pages) each(proxy xds.ProxyStatus, typ string, add func(h heldResource, packed *anypb.Any)) error {
	all, err := p.clientResources(proxy, typ)
	if err != nil {
		return err
	}
	for _, h := range all {
		packed, err := anypb.New(h.message)
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		add(h, packed)
	}
	return nil
}

func (p *Pages) dumpClusters(proxy xds.ProxyStatus) (proto.Message, error) {
	out := &adminv3.ClustersConfigDump{}
	return out, p.each(proxy, xdstype.ClusterURL, func(h heldResource, packed *anypb.Any) {
		out.DynamicActiveClusters = append(out.DynamicActiveClusters,
			&adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: h.version, Cluster: packed})
	})
}

func (p *Pages) dumpListeners(proxy xds.ProxyStatus) (proto.Message, error) {
	out := &adminv3.ListenersConfigDump{}
	return out, p.each(proxy, xdstype.ListenerURL, func(h heldResource, packed *anypb.Any) {
		state := &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: h.version, Listener: packed}
		out.DynamicListeners = append(out.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{Name: h.name, ActiveState: state})
	})
}

func (p *Pages) dumpSecrets(proxy xds.ProxyStatus) (proto.Message, error) {
	out := &adminv3.SecretsConfigDump{}
	return out, p.each(proxy, xdstype.SecretURL, func(h heldResource, packed *anypb.Any) {
		out.DynamicActiveSecrets = append(out.DynamicActiveSecrets,
			&adminv3.SecretsConfigDump_DynamicSecret{Name: h.name, VersionInfo: h.version, Secret: packed})
	})
}

// dumpRoutes shows virtual hosts within their route configuration even if they were sent separately, as Envoy does.
func (p *Pages) dumpRoutes(proxy xds.ProxyStatus) (proto.Message, error) {
	hosts, err := p.clientResources(proxy, xdstype.VirtualHostURL)
	if err != nil {
		return nil, err
	}
	routes, err := p.clientResources(proxy, xdstype.RouteURL)
	if err != nil {
		return nil, err
	}
	out := &adminv3.RoutesConfigDump{}
	for _, h := range routes {
		config := h.message.(*routev3.RouteConfiguration)
		for _, host := range hosts {
			if strings.HasPrefix(host.name, h.name+"/") {
				config.VirtualHosts = append(config.VirtualHosts, host.message.(*routev3.VirtualHost))
			}
		}
		packed, err := anypb.New(config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, err)
		}
		out.DynamicRouteConfigs = append(out.DynamicRouteConfigs,
			&adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: h.version, RouteConfig: packed})
	}
	return out, nil
}

func (p *Pages) dumpEndpoints(proxy xds.ProxyStatus) (proto.Message, error) {
	out := &adminv3.EndpointsConfigDump{}
	return out, p.each(proxy, xdstype.EndpointURL, func(h heldResource, packed *anypb.Any) {
		out.DynamicEndpointConfigs = append(out.DynamicEndpointConfigs,
			&adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: h.version, EndpointConfig: packed})
	})
}
