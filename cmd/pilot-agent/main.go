// Command pilot-agent runs Envoy beside a workload (`pilot-agent proxy sidecar|router`), waits for it (`wait`) and asks it (`request`).
package main

import (
	"context"
	"fmt"
	"os"

	"fairway/internal/agent/command"
	"fairway/internal/agent/proxy"
)

func main() {
	err := command.New(os.Stdout, os.Stderr).ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilot-agent:", err)
	}
	os.Exit(proxy.ExitCode(err))
}
