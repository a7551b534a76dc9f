package istioctl

import (
	"encoding/json"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/admin/page"
	"fairway/internal/xdstype"
)

// shown are the types that istioctl shows the state of.
var shown = []xdstype.Type{xdstype.Clusters, xdstype.Listeners, xdstype.Loads, xdstype.Routes}

// states makes a ClientConfig of each proxy of /debug/syncz. It has the state of each type in both forms: releases of istioctl read one of
// them.
func states(text []byte) (out []*anypb.Any, err error) {
	var all []page.ProxySync
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, p := range all {
		metadata, err := structpb.NewStruct(map[string]any{"CLUSTER_ID": p.ClusterID, "ISTIO_VERSION": p.IstioVersion})
		if err != nil {
			return nil, err
		}
		of := &statusv3.ClientConfig{Node: &corev3.Node{Id: page.ShortName(p.ProxyID), Metadata: metadata}}
		for _, t := range shown {
			state := stateOf(p, t)
			of.GenericXdsConfigs = append(of.GenericXdsConfigs,
				&statusv3.ClientConfig_GenericXdsConfig{TypeUrl: t.URL(), ConfigStatus: state})
			of.XdsConfig = append(of.XdsConfig, typed(t, state)) //nolint:staticcheck // older releases of istioctl read it
		}
		one, err := anypb.New(of)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// stateOf returns the state of a type, as pilotctl proxy-status has it.
func stateOf(p page.ProxySync, t xdstype.Type) statusv3.ConfigStatus {
	n := p.Nonces[t]
	switch {
	case p.Rejected[t.Label()] != "":
		return statusv3.ConfigStatus_ERROR
	case n.Sent == "":
		return statusv3.ConfigStatus_NOT_SENT
	case n.Sent == n.Acked:
		return statusv3.ConfigStatus_SYNCED
	}
	return statusv3.ConfigStatus_STALE
}

// typed returns the state of a type in the older form, where a field of the type's own says which type it is.
func typed(t xdstype.Type, state statusv3.ConfigStatus) *statusv3.PerXdsConfig {
	out := &statusv3.PerXdsConfig{Status: state}
	switch t {
	case xdstype.Clusters:
		out.PerXdsConfig = &statusv3.PerXdsConfig_ClusterConfig{ClusterConfig: &adminv3.ClustersConfigDump{}}
	case xdstype.Listeners:
		out.PerXdsConfig = &statusv3.PerXdsConfig_ListenerConfig{ListenerConfig: &adminv3.ListenersConfigDump{}}
	case xdstype.Loads:
		out.PerXdsConfig = &statusv3.PerXdsConfig_EndpointConfig{EndpointConfig: &adminv3.EndpointsConfigDump{}}
	case xdstype.Routes:
		out.PerXdsConfig = &statusv3.PerXdsConfig_RouteConfig{RouteConfig: &adminv3.RoutesConfigDump{}}
	}
	return out
}

// parts returns the parts of a config_dump.
func parts(text []byte) ([]*anypb.Any, error) {
	var dump adminv3.ConfigDump
	if err := protojson.Unmarshal(text, &dump); err != nil {
		return nil, err
	}
	return dump.Configs, nil
}
