package bootstrap

import (
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	injectedv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/injected_resource/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/envoy"
)

// What a drain by file is made of: Envoy's names of the monitor that reads the file and of the action that it causes.
// Each may stand in a bootstrap once.
const (
	DrainMonitor = "envoy.resource_monitors.injected_resource"
	DrainAction  = "envoy.overload_actions.reduce_timeouts"
)

// drainLook is how often Envoy looks at what its monitors know, soonest how long a connection has been without a
// request before it is told to go.
const drainLook, soonest = 250 * time.Millisecond, 100 * time.Millisecond

// overload bounds the number of connections that Envoy takes (0: as the system's own limits do; Envoy warns at every start of a
// limit nobody chose). Where a file says that Envoy drains, connections of HTTP are idle for too long at once, and so
// are told to go: by GOAWAY, or by closing them.
func overload(drainFile string, connections uint32) *overloadv3.OverloadManager {
	most := int64(connections)
	if most == 0 {
		most = 1<<31 - 1
	}
	m := &overloadv3.OverloadManager{ResourceMonitors: []*overloadv3.ResourceMonitor{{
		Name: "envoy.resource_monitors.global_downstream_max_connections",
		ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: envoy.Any(
			&connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: most})},
	}}}
	if drainFile == "" {
		return m
	}
	m.RefreshInterval = durationpb.New(drainLook)
	m.ResourceMonitors = append(m.ResourceMonitors, &overloadv3.ResourceMonitor{
		Name: DrainMonitor,
		ConfigType: &overloadv3.ResourceMonitor_TypedConfig{
			TypedConfig: envoy.Any(&injectedv3.InjectedResourceConfig{Filename: drainFile}),
		},
	})
	m.Actions = []*overloadv3.OverloadAction{
		{
			Name: DrainAction,
			Triggers: []*overloadv3.Trigger{{Name: DrainMonitor, TriggerOneof: &overloadv3.Trigger_Scaled{
				Scaled: &overloadv3.ScaledTrigger{ScalingThreshold: 0.5, SaturationThreshold: 1},
			}}},
			TypedConfig: envoy.Any(
				&overloadv3.ScaleTimersOverloadActionConfig{TimerScaleFactors: []*overloadv3.ScaleTimersOverloadActionConfig_ScaleTimer{{
					Timer:          overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_CONNECTION_IDLE,
					OverloadAdjust: &overloadv3.ScaleTimersOverloadActionConfig_ScaleTimer_MinTimeout{MinTimeout: durationpb.New(soonest)},
				}}},
			),
		},
	}
	return m
}
