package admin

import (
	"net/http"
	"time"

	"fairway/internal/snapshot"
	"fairway/internal/web"
)

// snapshotTime is how long a caller may take to read a snapshot, beyond the usual time.
const snapshotTime = 2 * time.Minute

// snapshotz sends a snapshot. One is taken at a time: it lists all rows.
func (p *Pages) snapshotz(w http.ResponseWriter, r *http.Request) {
	select {
	case p.snapshots <- struct{}{}:
		defer func() { <-p.snapshots }()
	case <-r.Context().Done():
		return
	}
	web.Extend(w, snapshotTime)
	w.Header().Set("Content-Type", "application/gzip")
	if err := snapshot.Encode(w, p.Snapshot()); err != nil {
		p.Access.Log.Warn("a snapshot was not sent whole", "error", err)
		panic(http.ErrAbortHandler) // the caller must see that it is not whole
	}
}
