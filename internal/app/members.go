package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"fairway/internal/app/session"
	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// members keeps the machines that are registered with WorkloadGroups on disk, so that a control plane that starts again knows them before
// their proxies come back.
type members struct {
	path    string
	proxies *session.Register
	log     *slog.Logger
}

// membersFile is the file in the folder of what is kept.
const membersFile = "machines.json"

// keepEvery is how often it is looked whether machines have come or gone.
const keepEvery = time.Second

// newMembers restores the machines that were registered before; nil: nothing is kept, or a cluster has their WorkloadEntries.
func newMembers(opts Options, inCluster bool, proxies *session.Register) *members {
	if opts.ClusterDir == "" || inCluster {
		return nil
	}
	m := &members{filepath.Join(opts.ClusterDir, membersFile), proxies, opts.Log}
	text, err := disk.Stream(m.path, disk.MaxFile)
	if err == nil {
		err = proxies.Restore(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("the machines that were registered before the start are not known until they come back", "file", m.path, "error", err)
	}
	return m
}

// run writes the machines down as they change, until ctx ends.
func (m *members) run(ctx context.Context) error {
	if m == nil {
		return nil
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var written uint64
	failed := false
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done(): // what changed last is written down too
		}
		if m.proxies.Registered() == written {
			continue
		}
		text, version := m.proxies.Machines()
		err := safefile.Write(m.path, text, 0o600)
		if err == nil {
			written = version
		} else if !failed {
			m.log.Warn("registered machines are not kept on disk: a control plane that starts again knows them when they come back",
				"error", err)
		}
		failed = err != nil
	}
	return nil
}
