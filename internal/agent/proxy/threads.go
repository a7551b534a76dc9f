package proxy

import (
	"bytes"
	"crypto/rand"
	"net"
	"os"
	"runtime"
	"strings"

	"fairway/internal/agent/settings"
	"fairway/internal/disk"
)

// migration is a setting of the kernel (net.ipv4.tcp_migrate_req, since Linux 5.14). An Envoy has a listening socket for each
// worker thread, and a hot restart with fewer threads closes some of them. The kernel resets the connections that wait in them to
// be accepted (measured: up to six of some ten thousand at one restart). With the setting it hands them to the other sockets of
// the port; then none was lost. Agents switch it on when they need it, and the last of them in a network namespace switches it
// off again.
type migration struct {
	path string // of the setting
	name string // what the names of marks begin with
	// mark is an abstract socket: it shows the other agents of the network namespace, whatever else they share, that this one needs
	// the setting. nil: it does not, or the setting was on before.
	mark net.Listener
}

const migrationPath = "/proc/sys/net/ipv4/tcp_migrate_req"

// enable makes the kernel keep connections that wait in a socket that is closed, and reports whether it will.
func (m *migration) enable() bool {
	before, err := disk.Stream(m.path, 64)
	if err != nil {
		return false
	}
	on := strings.TrimSpace(string(before)) == "1"
	if on && (m.mark != nil || !m.marked()) {
		return true
	}
	if m.mark == nil {
		if m.mark, err = net.Listen("unix", m.name+rand.Text()); err != nil {
			return on // another one's, which may switch it off
		}
	}
	if err := os.WriteFile(m.path, []byte("1\n"), 0o644); err != nil && !on {
		m.unmark()
		return false
	}
	return true
}

func (m *migration) unmark() {
	_ = m.mark.Close()
	m.mark = nil
}

// end switches the setting off if this agent or another one switched it on and none needs it any longer.
func (m *migration) end() {
	if m.mark == nil {
		return
	}
	if m.unmark(); !m.marked() {
		_ = os.WriteFile(m.path, []byte("0\n"), 0o644) // a process that could set it can reset it
	}
}

// marked reports whether an agent of this network namespace needs the setting.
func (m *migration) marked() bool {
	sockets, err := disk.Stream("/proc/self/net/unix", 64<<20)
	return err == nil && bytes.Contains(sockets, []byte(m.name))
}

// threads returns the number of worker threads for a concurrency.
func threads(concurrency int) int {
	if concurrency == 0 {
		return runtime.NumCPU()
	}
	return concurrency
}

// keepThreads returns the options with the serving Envoy's number of threads, if fewer would lose connections.
func (a *agent) keepThreads(o settings.Options) settings.Options {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !o.Restarts.Hot || threads(o.Concurrency) >= threads(a.now.Concurrency) {
		return o
	}
	if !a.migration.enable() {
		a.log.Warn(
			"fewer worker threads take effect when Envoy is started anew: a hot restart would lose connections, because "+
				migrationPath+" cannot be switched on",
			"wanted", o.Concurrency, "kept", a.now.Concurrency,
		)
		o.Concurrency = a.now.Concurrency
	}
	return o
}
