package proxy

import (
	"os"
	"runtime"
	"strings"

	"fairway/internal/agent/settings"
	"fairway/internal/disk"
)

// An Envoy has a listening socket for each worker thread, and one that is hot-restarted with fewer threads closes some
// of them: connections that wait in one to be accepted are reset (measured: up to six of some ten thousand at one
// restart). Linux hands them to the other sockets of the port where this is on (since 5.14); then none was lost. It is
// on for no longer than the agent runs, and harmless to others.
const migration = "/proc/sys/net/ipv4/tcp_migrate_req"

// enableMigration has the kernel keep connections that wait in a socket that is closed, and says whether it will.
// restore undoes that; nil: it did so already.
func enableMigration(path string) (enabled bool, restore func()) {
	before, err := disk.Stream(path, 64)
	if err != nil {
		return false, nil
	}
	if strings.TrimSpace(string(before)) == "1" {
		return true, nil
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o644); err != nil {
		return false, nil
	}
	return true, func() { _ = os.WriteFile(path, before, 0o644) } // who could set it can
}

// threads is how many worker threads a concurrency stands for.
func threads(concurrency int) int {
	if concurrency == 0 {
		return runtime.NumCPU()
	}
	return concurrency
}

// keepThreads gives the options with the number of threads that the serving Envoy has, where fewer would lose connections.
func (a *agent) keepThreads(o settings.Options) settings.Options {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !o.Restarts.Hot || threads(o.Concurrency) >= threads(a.now.Concurrency) {
		return o
	}
	enabled, restore := enableMigration(migration)
	if restore != nil && a.restore == nil {
		a.restore = restore
	}
	if !enabled {
		a.log.Warn(
			"fewer worker threads take effect when Envoy is started anew: a hot restart would lose "+
				"connections, because "+migration+" cannot be switched on",
			"wanted",
			o.Concurrency,
			"kept",
			a.now.Concurrency,
		)
		o.Concurrency = a.now.Concurrency
	}
	return o
}

// restoreMigration undoes what enableMigration did.
func (a *agent) restoreMigration() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restore != nil {
		a.restore()
	}
}
