package writeback

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/app/reached"
	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/table"
	routed "fairway/internal/writes/gatewayapi"
	"fairway/internal/writes/gateways"
)

// routed returns what the status of an object of the Gateway API should say. A listener is programmed once all proxies that serve it have
// acknowledged it.
func (w *Writer) routed(k config.Key) (out routed.Wanted) {
	g := w.graph
	g.Store.Read(func(tx *table.Tx) {
		written, _ := table.Lookup(tx, g.In.Written.Table, k)
		out.Version = written.Stored
		if is, ok := table.Lookup(tx, g.GatewayAPI.Statuses, k); ok {
			out.Content = routed.Content{
				Conditions: is.Conditions, Listeners: is.Listeners, Parents: is.Parents, Ancestors: is.Ancestors,
				Addressed: is.Addressed, Addresses: is.Addresses, Features: is.Features,
			}
			out.Revised = is.Revised
			if is.Sets > 0 {
				out.Sets = &is.Sets
			}
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

// deployed returns the objects that a Gateway should have in the cluster.
func (w *Writer) deployed(k config.Key) (out gateways.Wanted) {
	g := w.graph
	g.Store.Read(func(tx *table.Tx) {
		written, _ := table.Lookup(tx, g.In.Written.Table, k)
		out.UID = written.Stored.UID
		if d, ok := table.Lookup(tx, g.GatewayAPI.Deployments, k); ok {
			out.Deployment = (*gateways.Deployment)(d)
		}
	})
	return out
}

// allDeployed calls add with each Gateway that should have objects, or should have none, after it has read all of them: add reads, too, and
// a read inside another one could wait for a turn that waits for the outer one.
func (w *Writer) allDeployed(add func(config.Key)) {
	var all []config.Key
	w.graph.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, w.graph.GatewayAPI.Deployments) {
			all = append(all, k)
		}
	})
	for _, k := range all {
		add(k)
	}
}

// taken has the status of a Gateway say why it cannot be deployed; empty: it can.
func (w *Writer) taken(k config.Key, why string) {
	if why == "" {
		w.graph.GatewayAPI.Taken.Delete(k)
	} else {
		w.graph.GatewayAPI.Taken.Set(k, printable.Text(why, mostMessage))
	}
}

// programmed returns conditions for proxies that do not all have the version yet. While it is not known how many will lack it, nothing is
// said of it: what the status says of the version before stays.
func programmed(all []metav1.Condition, how reached.Outcome, why string) []metav1.Condition {
	out := slices.Clone(all)
	switch is := meta.FindStatusCondition(out, string(gatewayv1.GatewayConditionProgrammed)); {
	case is == nil || is.Status != metav1.ConditionTrue:
	case how == reached.Unknown:
		meta.RemoveStatusCondition(&out, is.Type)
	default:
		is.Status, is.Reason, is.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonPending), why
	}
	return out
}

// Bounds on the Gateways that control planes tell each other of.
const (
	mostServed     = 4096
	mostServedText = 200 << 10 // bytes: an annotation has room for 256 KiB
)

// servedHere tells the leader which Gateways have proxies here.
func (w *Writer) servedHere() {
	var text string
	w.graph.Store.Read(func(tx *table.Tx) { text = servedText(table.All(tx, w.graph.GatewayAPI.Here)) })
	w.Served(text)
}

// servedText lists Gateways, one a line. Those that there is no room for are left out.
func servedText(all iter.Seq2[config.Key, struct{}]) string {
	var b strings.Builder
	listed := 0
	for k := range all {
		line := k.Namespace + "/" + k.Name + "\n"
		if listed == mostServed || b.Len()+len(line) > mostServedText {
			break
		}
		listed++
		b.WriteString(line)
	}
	return b.String()
}

// servedElsewhere takes which Gateways have proxies of another control plane; empty: none, or it is gone.
func (w *Writer) servedElsewhere(by, text string) error {
	if text == "" {
		w.graph.GatewayAPI.Elsewhere.Delete(by)
		return nil
	}
	if len(text) > mostServedText {
		return fmt.Errorf("a list of Gateways of %d bytes, want at most %d", len(text), mostServedText)
	}
	var all []config.Key
	for line := range strings.Lines(text) {
		namespace, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "/")
		if !ok || len(all) == mostServed || !printable.Is(namespace, mostMessage) || !printable.Is(name, mostMessage) {
			return fmt.Errorf("line %d of the list of Gateways is not NAMESPACE/NAME, or is one too many", len(all)+1)
		}
		all = append(all, config.Key{Kind: config.KubernetesGateway, Namespace: namespace, Name: name})
	}
	w.graph.GatewayAPI.Elsewhere.Set(by, all)
	return nil
}
