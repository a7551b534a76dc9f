// Command envoy obtains the pinned Envoy binary and prints its path: `go run ./build/envoy`.
// With ENVOY set it downloads nothing and prints that path. With -arch it is the pinned one for an architecture, for images.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/envoybin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	arch := flag.String("arch", "", "amd64 or arm64: the pinned Envoy for images of that architecture")
	flag.Parse()
	obtain := envoybin.Obtain
	if *arch != "" {
		obtain = func(ctx context.Context, log io.Writer) (string, error) { return envoybin.ObtainFor(ctx, log, *arch) }
	}
	path, err := obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
