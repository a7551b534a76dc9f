// Command kube builds the Kubernetes that the tests run, where it is missing, and prints its path: `go run ./build/kube`.
// With KUBESERVER set it builds nothing and prints that path.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/kubebin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := kubebin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
