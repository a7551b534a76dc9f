package session

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// Disk keeps the machines that are registered with WorkloadGroups on disk, so that a control plane that starts again knows them before
// their proxies come back. A nil *Disk keeps nothing.
type Disk struct {
	path    string
	proxies *Register
	log     *slog.Logger
}

// diskFile is the name of the file.
const diskFile = "machines.json"

// keepEvery is how often Run checks whether machines have come or gone.
const keepEvery = time.Second

// Keep restores the machines that were registered before, from a file in folder, and returns what keeps them there; nil if folder is empty.
func Keep(folder string, proxies *Register, log *slog.Logger) *Disk {
	if folder == "" {
		return nil
	}
	m := &Disk{filepath.Join(folder, diskFile), proxies, log}
	text, err := disk.Stream(m.path, disk.MaxFile)
	if err == nil {
		err = proxies.Restore(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("the machines that were registered before the start are not known until they come back", "file", m.path, "error", err)
	}
	return m
}

// Run writes the machines down as they change, until ctx ends.
func (m *Disk) Run(ctx context.Context) error {
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
		case <-ctx.Done(): // saves the last changes too
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
