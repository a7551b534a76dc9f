package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/settings"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/extension"
)

// Bounds on the search for patches that Envoy cannot run with: how many times an Envoy is started for it before one serves, and
// beside one that serves.
const (
	mostTrials   = 16
	mostRestarts = 8
)

// withoutFailing finds the patches that made an Envoy end before it served, leaves them out and returns the plan with the others.
// It returns false if Envoy does not run without patches either, or runs with all of them now.
func (a *agent) withoutFailing(ctx context.Context, failed epoch.Plan, why error, try epoch.Trial) (epoch.Plan, bool) {
	if a.patches == nil || a.admin == nil {
		return failed, false
	}
	names := a.patches.Merged()
	plain, err := a.planWith(nil)
	if err != nil || len(names) == 0 || settings.OverrideOf(plain) == settings.OverrideOf(failed) {
		return failed, false
	}
	a.log.Error("envoy does not start with the patches of its bootstrap: those that it cannot run with are looked for",
		"patches", len(names), "error", why)
	if err := try(plain); err != nil {
		a.log.Error("envoy does not start without them either", "error", err)
		return failed, false
	}
	good, bad := plain, 0
	var with []string
	for group := range slices.Chunk(names, (len(names)+mostTrials-1)/mostTrials) {
		next, err := a.planWith(slices.Concat(with, group))
		if err == nil && !a.draining.Load() {
			err = try(next)
		}
		switch {
		case ctx.Err() != nil || a.draining.Load():
			return plain, true // it is being stopped
		case err != nil:
			a.patches.LeaveOut(group, combined(group, err))
			bad++
		default:
			good, with = next, slices.Concat(with, group)
		}
	}
	return good, bad > 0
}

// combined returns why patches are left out together: at least one of them cannot run.
func combined(names []string, why error) string {
	if len(names) == 1 {
		return why.Error()
	}
	return fmt.Sprintf("of %d patches that were tried together at least one cannot run: %v", len(names), why)
}

// patched returns options with the control plane's patches.
func (a *agent) patched(o settings.Options) (settings.Options, error) {
	if a.patches == nil {
		return o, nil
	}
	var err error
	o.Override, err = a.patches.Override(o.Override)
	return o, err
}

// planWith returns the current plan with only some of the patches.
func (a *agent) planWith(names []string) (epoch.Plan, error) {
	a.mu.Lock()
	o := a.now
	a.mu.Unlock()
	var err error
	if o.Override, err = a.patches.OverrideWith(names, o.Override); err != nil {
		return epoch.Plan{}, err
	}
	plan, _, err := o.Plan()
	return plan, err
}

// blame looks for the patches that kept an Envoy from taking over from the one that serves: the suspects are those that no Envoy
// has served with. If there are several, they are tried one after the other.
func (a *agent) blame(ctx context.Context, why error) {
	suspects := a.patches.Untried()
	if len(suspects) == 0 {
		return
	}
	a.patches.LeaveOut(suspects, combined(suspects, why))
	if len(suspects) == 1 {
		return
	}
	for _, name := range suspects[:min(len(suspects), mostRestarts)] {
		a.patches.TryAgain(name)
		if err := a.restart(ctx, "a patch of the bootstrap is tried by itself",
			false); err != nil && !errors.Is(err, epoch.ErrOver) &&
			ctx.Err() == nil {
			a.patches.LeaveOut([]string{name}, err.Error())
		}
	}
	a.patches.ForgetFailure() // of these tries
}

// noteFailure notes why an Envoy could not take over, for blame.
func (a *agent) noteFailure(_ epoch.Plan, why error) {
	if a.patches != nil {
		a.patches.NoteFailure(why)
	}
}

// answers reports whether Envoy's administration answers at all.
func (a *agent) answers(ctx context.Context) bool {
	if a.admin == nil {
		return false
	}
	_, err := a.admin.ServerInfo(ctx)
	return err == nil
}

// reportFailing reports to the control plane which patches Envoy cannot run with, so that the objects can show it.
func (a *agent) reportFailing(failing map[string]string) {
	a.report(bootstrap.PatchReportType, failing)
}

// reportModules reports to the control plane which Wasm modules cannot be fetched.
func (a *agent) reportModules(failing map[string]string) { a.report(extension.ReportType, failing) }

func (a *agent) report(typ string, failing map[string]string) {
	r := relay.Report{Type: typ}
	if text := bootstrap.EncodePatchReport(failing); text != "" {
		r.Failure = &statuspb.Status{Code: int32(codes.FailedPrecondition), Message: text}
	}
	if err := a.relay.Report(r); err != nil {
		a.log.Error("the control plane is not told what fails here", "type", typ, "error", err)
	}
}
