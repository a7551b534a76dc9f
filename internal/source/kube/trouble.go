package kube

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/rows"
)

// States of a feed, as they are reported beside an error's text.
const (
	stateUp     = ""
	stateAbsent = "not served"
)

// mostRefusals is how many watches in a row an API server may refuse before the kind is listed again.
const mostRefusals = 3

func forgotten(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

// failed takes why a watch could not begin, or go on: the next one goes on where this one was, unless the API server
// knows nothing of that.
func (f *feed) failed(err error) error {
	var status apierrors.APIStatus
	switch {
	case forgotten(err):
		f.version = ""
		return fmt.Errorf("%w: %w", errForgotten, err)
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge): // it was set back to an earlier time
		f.version = ""
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		f.version = "" // a list tells what may be had now
		f.kind.lost()
	case !errors.As(err, &status), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsServerTimeout(err), apierrors.IsTimeout(err): // it is busy, or away
	default:
		if f.refusals++; f.refusals >= mostRefusals {
			f.refusals, f.version = 0, ""
		}
	}
	return err
}

// recovered takes back the reported state of the feed.
func (f *feed) recovered() {
	if f.state == stateUp {
		return
	}
	f.log.Debug("the kind is read again")
	f.state, f.began = stateUp, time.Time{}
	f.out.setState(f.title(), "")
	f.out.put(nil, map[string][]mesh.Problem{f.title(): nil})
}

// title returns the place of the feed's state and of its problems: another place than problems of objects have.
func (f *feed) title() string {
	if f.kind.one == (rows.ID{}) {
		return f.kind.name
	}
	return printable.Text("watch of "+f.kind.name+" "+f.kind.one.String(), printable.Short)
}

// ref returns the reference of the kind or object that is not read.
func (f *feed) ref() mesh.ObjectRef {
	return mesh.ObjectRef{Kind: f.kind.name, Namespace: f.kind.one.Namespace, Name: f.kind.one.Name}
}

// fails says why the feed does not go on. The rows that it handed over stay.
func (f *feed) fails(err error) {
	switch {
	case errors.Is(err, answers.ErrNotServed):
		f.setState(stateAbsent, func() { f.log.Info("the API server does not serve the kind; it is read once that changes") })
		f.out.setState(f.title(), "")
		f.release()
	case apierrors.IsForbidden(err):
		f.forbidden(err)
	case f.listed || f.awaited:
		why := reason(err)
		f.setState(why, func() {
			f.log.Info("the kind is not kept up to date; the last state that was read stays in force", "reason", why)
		})
		f.out.setState(f.title(), why)
	}
}

// reason returns an error's text without the request, which differs from one try to the next.
func reason(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return printable.Text(err.Error(), printable.Long)
}

// forbidden reports a problem that users see. At the start the kind is waited for a while: rights may be on their way.
func (f *feed) forbidden(err error) {
	if f.began.IsZero() {
		f.began = time.Now()
	}
	why := printable.Text(err.Error(), printable.Long)
	f.setState(why, func() {
		f.log.Warn("the kind may not be read; the last state that was read stays in force", "error", why)
		f.out.put(nil, map[string][]mesh.Problem{f.title(): {{
			Object: f.ref(), Code: code.Unreadable, Severity: mesh.Error,
			Message: why + "; the last state that was read stays in force", Fix: "let the control plane list and watch it",
		}}})
	})
	if f.listed {
		f.out.setState(f.title(), why)
	} else if time.Since(f.began) >= f.o.Patience {
		f.out.setState(f.title(), "")
		f.release()
	}
}

// setState reports a state once.
func (f *feed) setState(state string, say func()) {
	if f.state != state {
		f.state = state
		say()
	}
}
