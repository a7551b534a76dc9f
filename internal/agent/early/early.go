// Package early catches the signals of a proxy from the program's first moment on. Set-up takes some hundredths of a second; a stop
// that is requested meanwhile must be an orderly one too.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// caught is filled before the slow parts are set up: packages that import only the standard library come first, in the order of
// their import paths. For commands other than `proxy` and `run`, and programs other than pilot-agent, signals keep their default effect.
var caught = catch(os.Args)

func catch(args []string) chan os.Signal {
	if len(args) < 2 || args[1] != "proxy" && args[1] != "run" {
		return nil
	}
	return notified()
}

func notified() chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	return c
}

// Signals returns the signals that have come so far and will come: SIGINT, SIGTERM, SIGHUP and SIGUSR1. A program that runs a proxy
// calls it once, and reads them all.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := caught
	if c == nil {
		c = notified() // another program's proxy, or one with flags before its command
	}
	return c, func() { signal.Stop(c) }
}
