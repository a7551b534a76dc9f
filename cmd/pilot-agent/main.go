// Command pilot-agent runs Envoy beside a workload (`pilot-agent proxy sidecar|router`), or with an application
// (`run`), waits for it (`wait`) and asks it (`request`).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"fairway"
	"fairway/internal/agent/command"
	"fairway/internal/agent/proxy"
)

func main() {
	root := command.New(os.Stdout, os.Stderr)
	root.Version = fairway.Full()
	err := root.ExecuteContext(context.Background())
	var app *command.ApplicationError
	if errors.As(err, &app) {
		os.Exit(app.Code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilot-agent:", err)
	}
	os.Exit(proxy.ExitCode(err))
}
