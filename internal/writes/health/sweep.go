package health

import (
	"context"
	"strings"
	"time"

	"fairway/internal/config"
	"fairway/internal/writes/condition"
)

// This file makes conditions Unknown when the control plane that wrote them is gone and their agents are connected to no other.

// lookEvery is how often the leader looks for control planes that are gone.
const lookEvery = 5 * time.Second

// heardBy begins the reason of a condition; the control plane that the agent is connected to follows.
const heardBy = "HeardBy."

// keeper returns the control plane that wrote a condition that may be out of date once it is gone; empty: none.
func keeper(is condition.Condition) string {
	if is.Status != yes && is.Status != no {
		return ""
	}
	name, _ := strings.CutPrefix(is.Reason, heardBy)
	if name == is.Reason {
		return ""
	}
	return name
}

// Sweep finds out which keepers are gone, and takes over their conditions, until ctx ends. Only the leader runs it.
func (w *Writer) Sweep(ctx context.Context) {
	w.o.Listener.Only(nil)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	gone := map[string]bool{} // keepers that are gone, whose Leases may still exist
	for {
		select {
		case <-tick.C:
			w.look(ctx, gone)
		case <-ctx.Done():
			return
		}
	}
}

func (w *Writer) look(ctx context.Context, gone map[string]bool) {
	kept := w.keepers()
	count := map[string]int{}
	for who := range gone {
		if count[who] = 1; len(kept[who]) > 0 { // all of them have been taken over
			continue
		}
		if err := w.o.Listener.DeleteKept(ctx, who); err == nil {
			delete(gone, who)
			delete(count, who)
		}
	}
	for who, keys := range kept {
		count[who] = len(keys)
		if w.queue.Pace(ctx) != nil {
			return
		}
		is, err := w.o.Listener.Gone(ctx, who, w.o.Grace)
		if err != nil {
			w.o.Report.Failed(task, "keeper "+who, err)
			continue
		}
		w.o.Report.Settled(task, "keeper "+who)
		if is {
			gone[who] = true
			w.takeOver(who, keys)
		}
	}
	w.o.Listener.Only(count)
}

// keepers returns the entries of each other control plane.
func (w *Writer) keepers() map[string][]config.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]config.Key{}
	for k, is := range w.standings {
		if who := keeper(is.Own); who != "" && who != w.o.Identity {
			out[who] = append(out[who], k)
		}
	}
	return out
}

// takeOver adds the entries of a keeper that is gone to the queue.
func (w *Writer) takeOver(who string, keys []config.Key) {
	w.mu.Lock()
	for _, k := range keys {
		w.left[k] = who
	}
	w.mu.Unlock()
	for _, k := range keys {
		w.queue.Add(k)
	}
}
