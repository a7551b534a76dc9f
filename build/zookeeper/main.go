// Command zookeeper obtains the ZooKeeper that the tests run, where it is missing, and prints the folder of its jars:
// `go run ./build/zookeeper`. With ZOOKEEPERLIB set it downloads nothing and prints that folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairway/build/zookeeperbin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := zookeeperbin.Obtain(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "zookeeper:", err)
		os.Exit(1)
	}
	fmt.Println(server.Jars)
}
