// Command conformance builds the Gateway API's conformance suite, which the tests run, where it is missing, and prints its path:
// `go run ./build/conformance`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/conformancebin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := conformancebin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	fmt.Println(programs.Suite)
}
