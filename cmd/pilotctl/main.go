// Pilotctl asks a control plane about its state: the configuration of each proxy, and the errors in what users wrote.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"fairway"
	"fairway/internal/ctl"
	"fairway/internal/printable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	command := ctl.Command(fairway.Version)
	command.Version = fairway.Full()
	err := command.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pilotctl: %s\n", printable.Lines(err.Error(), printable.Long))
	}
	stop()
	os.Exit(ctl.ExitCode(err))
}
