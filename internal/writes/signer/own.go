package signer

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	"fairway/internal/writes/work"
)

// Own keeps the certificate that the control plane presents under some names. Each replica has one of its own.
type Own struct {
	by     *Signer
	names  []string
	report *work.Report
	queue  *work.Queue[string]
	shown  atomic.Pointer[shown]
}

// shown is a certificate, and the roots with which it was verified.
type shown struct {
	cert  *tls.Certificate
	roots string
}

// task is the name under which reports and metrics list this task.
const task = "own certificate"

// NewOwn returns an Own that has no certificate until it runs.
func NewOwn(by *Signer, names []string, report *work.Report) *Own {
	o := &Own{by: by, names: names, report: report}
	o.queue = work.New(work.Options[string]{
		Task: task, Name: func(signer string) string { return "certificate of " + signer }, Do: o.renew,
		All: func(add func(string)) { add(by.o.Name) }, Report: report,
	})
	return o
}

// Certificate returns the certificate to present; nil: there is none yet. Any goroutine may call it.
func (o *Own) Certificate() *tls.Certificate {
	if s := o.shown.Load(); s != nil {
		return s.cert
	}
	return nil
}

// Run keeps the certificate up to date until ctx ends.
func (o *Own) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() { defer close(done); o.queue.AddAllWhen(ctx, o.by.Changed) }()
	o.queue.Run(ctx)
	<-done
}

// renew replaces the certificate after half of its life, and when the roots change.
func (o *Own) renew(ctx context.Context, signer string) error {
	roots := string(o.by.Roots())
	if s := o.shown.Load(); s != nil && s.roots == roots {
		if left := work.RenewIn(s.cert.Leaf, time.Now()); left > 0 {
			o.queue.AddAfter(signer, left)
			return nil
		}
	}
	if err := o.queue.Pace(ctx); err != nil {
		return err
	}
	made, err := o.by.Certificate(ctx, o.names)
	if err != nil {
		return err
	}
	o.shown.Store(&shown{made, roots})
	o.report.Wrote(task)
	o.queue.AddAfter(signer, work.RenewIn(made.Leaf, time.Now()))
	return nil
}
