// Command consul builds the Consul that the tests run, where it is missing, and prints its path: `go run ./build/consul`.
// With CONSULSERVER set it builds nothing and prints that path.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/consulbin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := consulbin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "consul:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
