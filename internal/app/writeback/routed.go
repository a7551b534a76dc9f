package writeback

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/app/reached"
	"fairway/internal/config"
	"fairway/internal/table"
	routed "fairway/internal/writes/gatewayapi"
)

// routed returns what the status of an object of the Gateway API should say. A listener is programmed once all proxies that serve it have
// acknowledged it.
func (w *Writer) routed(k config.Key) (out routed.Wanted) {
	g := w.graph
	g.Store.Read(func(tx *table.Tx) {
		written, _ := table.Lookup(tx, g.In.Written.Table, k)
		out.Version = written.Stored
		if is, ok := table.Lookup(tx, g.GatewayAPI.Statuses, k); ok {
			out.Content = routed.Content{Conditions: is.Conditions, Listeners: is.Listeners, Parents: is.Parents}
		}
	})
	if k.Kind != config.KubernetesGateway && k.Kind != config.ListenerSet {
		return out
	}
	how, count := w.live.Outcome(k, out.Version.Generation)
	if how == reached.Live {
		return out
	}
	why := liveCondition(how, count).Message
	out.Conditions = programmed(out.Conditions, how, why)
	out.Listeners = slices.Clone(out.Listeners)
	for i, l := range out.Listeners {
		out.Listeners[i].Conditions = programmed(l.Conditions, how, why)
	}
	return out
}

// programmed returns conditions for proxies that do not all have the version yet. While it is not known how many will lack it, nothing is
// said of it: what the status says of the version before stays.
func programmed(all []metav1.Condition, how reached.Outcome, why string) []metav1.Condition {
	out := slices.Clone(all)
	at := slices.IndexFunc(out, func(c metav1.Condition) bool {
		return c.Type == string(gatewayv1.GatewayConditionProgrammed) && c.Status == metav1.ConditionTrue
	})
	switch {
	case at < 0:
	case how == reached.Unknown:
		out = slices.Delete(out, at, at+1)
	default:
		out[at].Status, out[at].Reason, out[at].Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonPending), why
	}
	return out
}
