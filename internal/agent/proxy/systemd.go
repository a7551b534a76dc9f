package proxy

import (
	"context"
	"fmt"
	"net"
	"time"
)

// notifySystemd reports once that the proxy is ready, if systemd waits for that (sd_notify): then units after this one start.
func (a *agent) notifySystemd(ctx context.Context, up func()) error {
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
	conn, err := net.Dial("unixgram", a.notify)
	if err == nil {
		_, err = fmt.Fprint(conn, "READY=1\n")
		conn.Close()
	}
	if err != nil {
		a.log.Warn("systemd was not told that the proxy is ready", "socket", a.notify, "error", err)
	}
	<-ctx.Done()
	return nil
}
