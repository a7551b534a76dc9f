// Command envoy obtains the pinned Envoy binary and prints its path: `go run ./build/envoy`.
// With ENVOY set it downloads nothing and prints that path.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/envoybin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := envoybin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
