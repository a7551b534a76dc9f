package audit

import (
	"context"
	"log/slog"
	"time"

	"fairway/internal/admin"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Pace of the audit: every stream within auditPass as long as that takes no more than one part in auditShare of a core;
// some rows with each.
const (
	auditPass  = 50 * time.Second
	auditShare = 100
	auditRows  = 8
	auditPause = time.Second // the longest between two steps
)

// Publisher publishes rows again. *publish.Publisher is one.
type Publisher interface {
	library.Tables
	PublishWithNext([]library.RowKey)
}

// Options of an Auditor. All are required.
type Options struct {
	Store     *table.Store
	Publisher Publisher
	Server    *xds.Server
	Metrics   *admin.Metrics
	Log       *slog.Logger
}

// Auditor compares the beliefs of streams with the tables, and recomputes a sample of rows: stream by stream between turns, at a
// low rate, for as long as the program runs. It finds what no test found: a difference is logged, counted and sent. It
// belongs to the loop, so that no turn is published while it looks.
type Auditor struct {
	o     Options
	left  []uint64 // streams of this pass that were not looked at yet
	pass  *xds.Pass
	pause time.Duration // between the streams of this pass
	timer *time.Timer
}

// New returns an auditor. Its first step is due soon.
func New(o Options) *Auditor {
	return &Auditor{o: o, pass: xds.NewPass(), pause: auditPause, timer: time.NewTimer(auditPause)}
}

// Due receives when the next step is due.
func (a *Auditor) Due() <-chan time.Time { return a.timer.C }

// Stop ends the steps.
func (a *Auditor) Stop() { a.timer.Stop() }

// Step looks at the next stream and at some rows, and sets when the next step is due.
func (a *Auditor) Step() {
	start := time.Now()
	if len(a.left) == 0 {
		a.left, a.pass = a.o.Server.Connections(), xds.NewPass()
		a.pause = min(auditPause, auditPass/time.Duration(len(a.left)+1))
	}
	if len(a.left) > 0 {
		a.stream(a.left[0])
		a.left = a.left[1:]
	}
	for _, found := range a.o.Store.Recheck(auditRows) {
		a.o.Metrics.Diverged(admin.OfRow, 1)
		a.o.Log.Error("audit: a row is not what its reads make of it, and is computed again", "turn", a.o.Server.LastTurn(),
			"table", found.Table, "row", printable.Text(found.Key, printable.Short), "has", printable.Text(found.Have, printable.Long),
			"comes_out_as", printable.Text(found.Want, printable.Long))
	}
	a.timer.Reset(max(a.pause, auditShare*time.Since(start)))
}

// stream compares one stream with the tables.
func (a *Auditor) stream(connection uint64) {
	found, ok := a.o.Server.Audit(connection, a.o.Publisher, a.pass)
	if !ok {
		return
	}
	if found.Done {
		a.o.Metrics.Compared()
	}
	for of, n := range found.Counts {
		a.o.Metrics.Diverged(string(of), n)
	}
	for _, diff := range found.Differences {
		a.o.Log.Error("audit: not as the tables have it, and sent again", "turn", a.o.Server.LastTurn(), "of", string(diff.Of),
			"proxy", string(found.Proxy), "type", diff.Type,
			"name", diff.Name, "holds", diff.FoundVersion, "tables", diff.WantVersion, "differences", found.Count())
	}
	if len(found.Rows) > 0 {
		a.o.Publisher.PublishWithNext(found.Rows)
		a.o.Store.Again()
	}
}

// Limits of Compare.
const (
	comparePiece = 2 * time.Millisecond // about how long turns wait
	compareTime  = time.Second          // of comparing in all
)

// Compare compares streams with the tables, for callers that are about to report them as synced. between calls a function between two
// turns: streams are compared until a time has passed, then turns go on. Streams that are left after compareTime are not compared.
func (a *Auditor) Compare(ctx context.Context, between func(context.Context, func()) error, connections []uint64) {
	for took := time.Duration(0); len(connections) > 0 && took < compareTime; {
		if between(ctx, func() {
			start := time.Now()
			for len(connections) > 0 && time.Since(start) < comparePiece {
				a.stream(connections[0])
				connections = connections[1:]
			}
			took += time.Since(start)
		}) != nil {
			return
		}
	}
}
