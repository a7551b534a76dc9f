// Package early catches the signals of a proxy from the moment at which the program begins to run: a stop that is asked
// for while the program is still being set up, some hundredths of a second, must be an orderly one too.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// caught is filled before what takes long to be set up: packages that import nothing but the standard library come
// first, in the order of their import paths. Other commands than `proxy`, and programs that are not pilot-agent, keep
// what signals do by themselves.
var caught = catch(os.Args)

func catch(args []string) chan os.Signal {
	if len(args) < 2 || args[1] != "proxy" {
		return nil
	}
	return notified()
}

func notified() chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	return c
}

// Signals are those that have come so far and will come: SIGINT, SIGTERM, SIGHUP and SIGUSR1. Whoever runs a proxy
// calls it once, and reads them all.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := caught
	if c == nil {
		c = notified() // another program's proxy, or one whose flags stand before its command
	}
	return c, func() { signal.Stop(c) }
}
