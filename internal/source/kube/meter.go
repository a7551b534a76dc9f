package kube

import "k8s.io/apimachinery/pkg/watch"

// Meter counts. Its calls must return quickly; they come from many goroutines at once.
type Meter interface {
	// Event is called with each event of a watch that is read: of a kind, "Pod", and one of eventNames.
	Event(kind, event string)
	// Failed is called when a list or watch of a cluster failed.
	Failed(cluster string)
}

// eventNames are the names of events, as Istio's metrics have them.
var eventNames = map[watch.EventType]string{watch.Added: "add", watch.Modified: "update", watch.Deleted: "delete"}

type noMeter struct{}

func (noMeter) Event(string, string) {}
func (noMeter) Failed(string)        {}
