package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/epoch"
)

// Readiness checks whether the proxy can take traffic.
type Readiness struct {
	Epochs   func() epoch.State
	Admin    *admin.Client // nil: the bootstrap has none, and an Envoy that runs counts as ready
	Draining func() bool
	// Dynamic means that clusters and listeners come from a control plane.
	Dynamic bool

	mu     sync.Mutex
	server int // pid of the Envoy that was found ready once
}

// answerWithin is how long Envoy may take to answer; a probe waits a second by default.
const answerWithin = 900 * time.Millisecond

// Reasons returns what is missing, one line each; none: ready. While a new epoch comes up, the administration belongs to it, and
// the serving Envoy counts as it last did.
func (r *Readiness) Reasons(ctx context.Context) []string {
	if r.Draining() {
		return []string{"draining: the proxy is about to be stopped"}
	}
	st := r.Epochs()
	switch {
	case st.Serving == nil:
		return notRunning(st)
	case !st.Serving.Live:
		return []string{r.startingReason(ctx, st)}
	case r.Admin == nil:
		return nil
	case st.Starting != nil || !st.Administration:
		return r.lastReasons(st)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return r.ask(ctx, st.Serving.Pid)
}

func notRunning(st epoch.State) []string {
	if st.NextStart.IsZero() {
		return []string{"Envoy is not started yet"}
	}
	return []string{
		fmt.Sprintf("Envoy ended and is started again in %s (%d crashes in a row): %s",
			time.Until(st.NextStart).Round(time.Millisecond), st.InARow, st.LastError),
	}
}

// startingReason describes the progress of an Envoy that has never been live.
func (r *Readiness) startingReason(ctx context.Context, st epoch.State) string {
	if !st.NextStart.IsZero() {
		return notRunning(st)[0]
	}
	state := "has not answered yet"
	if r.Admin != nil {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		if info, err := r.Admin.ServerInfo(ctx); err == nil {
			state = "is " + info.State
		}
	}
	out := fmt.Sprintf("Envoy %s, %s after its start", state, time.Since(st.Serving.Since).Round(time.Millisecond))
	if r.Dynamic {
		out += "; it becomes live with the control plane's first configuration"
	}
	return out
}

// lastReasons is for the moments when the serving Envoy cannot be asked.
func (r *Readiness) lastReasons(st epoch.State) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != 0 {
		return nil
	}
	return []string{"Envoy's administration is a new epoch's, and the serving one was never found ready: " + st.LastError}
}

func (r *Readiness) ask(ctx context.Context, pid int) []string {
	info, err := r.Admin.ServerInfo(ctx)
	if err != nil {
		return []string{"Envoy does not answer: " + err.Error()}
	}
	if info.State != admin.Live {
		return []string{"Envoy is " + info.State}
	}
	r.mu.Lock()
	known := r.server == pid
	r.mu.Unlock()
	if known || !r.Dynamic {
		return nil
	}
	stats, err := r.Admin.Stats(ctx,
		`^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$|^listener_manager\.workers_started$`)
	if err != nil {
		return []string{"Envoy does not answer: " + err.Error()}
	}
	if reasons := configured(stats); len(reasons) > 0 {
		return reasons
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = pid
	return nil
}

// configured returns which kinds of configuration have not come.
func configured(stats map[string]int64) []string {
	var out []string
	for _, c := range [...][2]string{{"clusters", "cluster_manager.cds"}, {"listeners", "listener_manager.lds"}} {
		if stats[c[1]+".update_success"] == 0 {
			out = append(out, fmt.Sprintf("no %s from the control plane yet (%d responses refused)", c[0], stats[c[1]+".update_rejected"]))
		}
	}
	if n, there := stats["listener_manager.workers_started"]; there && n == 0 {
		out = append(out, "Envoy's workers are not started yet")
	}
	return out
}
