package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairway/internal/admin/page"
	"fairway/internal/xds"
)

// syncz shows each stream; of a proxy that has just reconnected both may be there.
func (p *Pages) syncz(w http.ResponseWriter, _ *http.Request) {
	out := []page.ProxySync{}
	for _, s := range p.Streams.Status() {
		out = append(out, p.sync(s))
	}
	writeJSON(w, out)
}

func (p *Pages) sync(s xds.ProxyStatus) page.ProxySync {
	line := page.ProxySync{ProxyID: string(s.Proxy), ConnectedAt: s.ConnectedAt, Synced: s.Synced}
	if proxy, ok := p.Proxy(s.Proxy); ok {
		line.ProxyType, line.ClusterID, line.IstioVersion = proxy.Type.String(), proxy.Cluster, proxy.Version
	}
	for typ, t := range s.Types {
		if t.Rejected != "" {
			if line.Rejected == nil {
				line.Rejected = map[string]string{}
			}
			line.Rejected[TypeLabel(typ)] = t.Rejected
		}
		switch typ {
		case xds.ClusterType:
			line.ClusterSent, line.ClusterAcked = t.Sent.Nonce, t.Acked.Nonce
		case xds.ListenerType:
			line.ListenerSent, line.ListenerAcked = t.Sent.Nonce, t.Acked.Nonce
		case xds.RouteType:
			line.RouteSent, line.RouteAcked = t.Sent.Nonce, t.Acked.Nonce
		case xds.EndpointType:
			line.EndpointSent, line.EndpointAcked = t.Sent.Nonce, t.Acked.Nonce
		case xds.VirtualHostType:
			line.VirtualHostSent, line.VirtualHostAcked = t.Sent.Nonce, t.Acked.Nonce
		}
	}
	return line
}

// find returns the connected proxy that a request names by node id, by name, or by name without namespace.
func (p *Pages) find(name string) (xds.ProxyID, error) {
	if name == "" {
		return "", fmt.Errorf("say which proxy: ?proxyID=")
	}
	for _, s := range p.Streams.Status() {
		parts := strings.Split(string(s.Proxy), "~")
		if string(s.Proxy) == name || len(parts) == 4 && (parts[2] == name || strings.HasPrefix(parts[2], name+".")) {
			return s.Proxy, nil
		}
	}
	return "", fmt.Errorf("no connected proxy is called %q; /debug/syncz lists them", name)
}

// types that a page shows under a short name: route configurations come with their virtual hosts.
var shown = map[string][]string{
	"cds":  {xds.ClusterType},
	"eds":  {xds.EndpointType},
	"lds":  {xds.ListenerType},
	"rds":  {xds.RouteType, xds.VirtualHostType},
	"vhds": {xds.VirtualHostType},
}

func (p *Pages) resourcez(w http.ResponseWriter, r *http.Request) {
	proxy, err := p.find(r.URL.Query().Get("proxyID"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	types, ok := shown[r.URL.Query().Get("type")]
	if !ok {
		http.Error(w, "type: want cds, eds, lds, rds or vhds", http.StatusBadRequest)
		return
	}
	out := []page.Resource{}
	for _, typ := range types {
		for _, res := range p.Streams.Held(proxy, typ) {
			body, err := decode(typ, res)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			text, err := protoJSON(body)
			if err != nil {
				http.Error(w, fmt.Sprintf("%s: %v", res.Name, err), http.StatusInternalServerError)
				return
			}
			out = append(out, page.Resource{Name: res.Name, Type: typ, Version: xds.FormatVersion(res.Version()), Body: text})
		}
	}
	writeJSON(w, out)
}

// decode reads a resource's bytes back into the message they are of.
func decode(typ string, res *xds.Resource) (proto.Message, error) {
	name := protoreflect.FullName(strings.TrimPrefix(typ, "type.googleapis.com/"))
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", res.Name, err)
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(res.Body(), m); err != nil {
		return nil, fmt.Errorf("%s: %w", res.Name, err)
	}
	return m, nil
}

func protoJSON(m proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{}.Marshal(m)
}

// configDump shows what a proxy was sent in the form of Envoy's own /config_dump, so that scripts which read that can read this.
func (p *Pages) configDump(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("proxyID")
	if name == "" {
		name = r.URL.Query().Get("proxy")
	}
	proxy, err := p.find(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	dump := &adminv3.ConfigDump{}
	for _, section := range []proto.Message{p.dumpClusters(proxy), p.dumpListeners(proxy), p.dumpRoutes(proxy), p.dumpEndpoints(proxy)} {
		packed, err := anypb.New(section)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		dump.Configs = append(dump.Configs, packed)
	}
	text, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(dump)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func packed(typ string, res *xds.Resource) *anypb.Any {
	return &anypb.Any{TypeUrl: typ, Value: res.Body()}
}

func (p *Pages) dumpClusters(proxy xds.ProxyID) *adminv3.ClustersConfigDump {
	out := &adminv3.ClustersConfigDump{}
	for _, res := range p.Streams.Held(proxy, xds.ClusterType) {
		out.DynamicActiveClusters = append(out.DynamicActiveClusters, &adminv3.ClustersConfigDump_DynamicCluster{
			VersionInfo: xds.FormatVersion(res.Version()), Cluster: packed(xds.ClusterType, res), LastUpdated: &timestamppb.Timestamp{}})
	}
	return out
}

func (p *Pages) dumpListeners(proxy xds.ProxyID) *adminv3.ListenersConfigDump {
	out := &adminv3.ListenersConfigDump{}
	for _, res := range p.Streams.Held(proxy, xds.ListenerType) {
		out.DynamicListeners = append(out.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
			Name: res.Name, ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: xds.FormatVersion(res.Version()), Listener: packed(xds.ListenerType, res)}})
	}
	return out
}

func (p *Pages) dumpRoutes(proxy xds.ProxyID) *adminv3.RoutesConfigDump {
	out := &adminv3.RoutesConfigDump{}
	for _, typ := range []string{xds.RouteType, xds.VirtualHostType} {
		for _, res := range p.Streams.Held(proxy, typ) {
			out.DynamicRouteConfigs = append(out.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{
				VersionInfo: xds.FormatVersion(res.Version()), RouteConfig: packed(typ, res)})
		}
	}
	return out
}

func (p *Pages) dumpEndpoints(proxy xds.ProxyID) *adminv3.EndpointsConfigDump {
	out := &adminv3.EndpointsConfigDump{}
	for _, res := range p.Streams.Held(proxy, xds.EndpointType) {
		out.DynamicEndpointConfigs = append(out.DynamicEndpointConfigs, &adminv3.EndpointsConfigDump_DynamicEndpointConfig{
			VersionInfo: xds.FormatVersion(res.Version()), EndpointConfig: packed(xds.EndpointType, res)})
	}
	return out
}
