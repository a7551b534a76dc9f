// Command eureka obtains the Eureka that the tests run, where it is missing, and prints its class path: `go run ./build/eureka`.
// With EUREKASERVER set it downloads nothing and prints that of the folder there.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"fairway/build/eurekabin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := eurekabin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "eureka:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(server.Paths, ":"))
}
