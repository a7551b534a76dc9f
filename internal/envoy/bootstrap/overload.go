package bootstrap

import (
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	injectedv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/injected_resource/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/envoy"
)

// The parts of a drain that a file triggers: Envoy's names of the monitor that reads the file and of the action that it causes. Each may
// appear in a bootstrap only once.
const (
	DrainMonitor = "envoy.resource_monitors.injected_resource"
	DrainAction  = "envoy.overload_actions.reduce_timeouts"
)

// drainLook is how often Envoy reads its monitors. soonest is how long a connection must be without a request before a drain closes it.
const drainLook, soonest = 250 * time.Millisecond, 100 * time.Millisecond

// overload limits the number of connections that Envoy accepts. 0 means that only the system limits them; a limit is set all the same,
// because Envoy warns at every start if there is none. While the drain file says so, the idle timeout of HTTP connections is short: Envoy
// closes idle ones soon, with GOAWAY or directly.
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
