package app

import (
	"context"
	"time"

	"fairway/internal/admin"
	"fairway/internal/printable"
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

// auditor holds what streams believe, and a sample of rows, against the tables: stream by stream between turns, at a
// low rate, for as long as the program runs. It finds what no test found: a difference is logged, counted and sent. It
// belongs to the loop, so that no turn is published while it looks.
type auditor struct {
	d     *Discovery
	left  []uint64 // streams of this pass that were not looked at yet
	pass  *library.Pass
	pause time.Duration // between the streams of this pass
	timer *time.Timer
}

func newAuditor(d *Discovery) *auditor {
	return &auditor{d: d, pass: library.NewPass(), pause: auditPause, timer: time.NewTimer(auditPause)}
}

// step looks at the next stream and at some rows, and says when the next step is due.
func (a *auditor) step() {
	start := time.Now()
	if len(a.left) == 0 {
		a.left, a.pass = a.d.server.Connections(), library.NewPass()
		a.pause = min(auditPause, auditPass/time.Duration(len(a.left)+1))
	}
	if len(a.left) > 0 {
		a.stream(a.left[0])
		a.left = a.left[1:]
	}
	for _, found := range a.d.graph.Store.Recheck(auditRows) {
		a.d.metrics.Diverged(admin.OfRow, 1)
		a.d.log.Error("audit: a row is not what its reads make of it, and is computed again", "table", found.Table,
			"row", printable.Text(found.Key, printable.Short), "has", printable.Text(found.Have, printable.Long),
			"comes_out_as", printable.Text(found.Want, printable.Long))
	}
	a.timer.Reset(max(a.pause, auditShare*time.Since(start)))
}

// stream compares one stream with the tables.
func (a *auditor) stream(connection uint64) {
	found, ok := a.d.server.Audit(connection, a.d.publisher, a.pass)
	if !ok {
		return
	}
	if found.Done {
		a.d.metrics.Compared()
	}
	for of, n := range found.Counts {
		a.d.metrics.Diverged(string(of), n)
	}
	for _, diff := range found.Differences {
		a.d.log.Error("audit: not as the tables have it, and sent again", "of", string(diff.Of), "proxy", string(found.Proxy),
			"type", diff.Type, "name", diff.Name, "holds", diff.Holds, "tables", diff.Sees, "differences", found.Count())
	}
	if len(found.Rows) > 0 {
		a.d.publisher.PublishWithNext(found.Rows)
		a.d.graph.Store.Again()
	}
}

// compare has streams compared with the tables before the next turn, for whoever is about to say that they are synced.
func (d *Discovery) compare(ctx context.Context, connections []uint64) {
	for _, connection := range connections {
		if d.between(ctx, func() { d.auditor.stream(connection) }) != nil {
			return
		}
	}
}
