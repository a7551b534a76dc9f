package admin

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"fairway/internal/questions"
	"fairway/internal/snapshot"
	"fairway/internal/web"
)

const (
	// snapshotTime is how long a caller may take to read a snapshot, beyond the usual time.
	snapshotTime = 2 * time.Minute
	// mostUnread is how many snapshots are in memory at once: they are compressed, but large.
	mostUnread = 4
)

// snapshotz sends a snapshot. It is a question: it lists all rows, and writes them.
func (p *Pages) snapshotz(w http.ResponseWriter, r *http.Request) {
	if p.unread.Add(1) > mostUnread {
		p.unread.Add(-1)
		w.Header().Set("Retry-After", retryAfter)
		writeError(w, "other callers are reading snapshots; ask again in a few seconds", http.StatusServiceUnavailable)
		return
	}
	defer p.unread.Add(-1)
	web.Extend(w, snapshotTime)
	var packed bytes.Buffer
	about := questions.Question{Name: "snapshot", Caller: viewerOf(r).namespace}
	var failed error
	if err := p.Questions.Ask(r.Context(), about, func(context.Context) error {
		failed = snapshot.Encode(&packed, p.Snapshot())
		return nil
	}); err != nil {
		unanswered(w, err)
		return
	}
	if failed != nil {
		p.Access.Log.Warn("a snapshot was not made", "error", failed)
		fail(w, failed)
		return
	}
	write(w, "application/gzip", packed.Bytes())
}
