package proxy

import (
	"context"
	"fmt"
	"net"
	"time"
)

// notifyReady reports once that the proxy is ready: to systemd, if it waits for that (sd_notify), so that units after this one start, and
// to settings.Options.Ready.
func (a *agent) notifyReady(ctx context.Context, up func()) error {
	up()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(a.reasons(ctx)) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	if a.notify != "" {
		a.notifySystemd()
	}
	if a.o.Ready != nil {
		a.o.Ready()
	}
	<-ctx.Done()
	return nil
}

func (a *agent) notifySystemd() {
	conn, err := net.Dial("unixgram", a.notify)
	if err == nil {
		_, err = fmt.Fprint(conn, "READY=1\n")
		conn.Close()
	}
	if err != nil {
		a.log.Warn("systemd was not told that the proxy is ready", "socket", a.notify, "error", err)
	}
}
